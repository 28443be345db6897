"""Files of equity marks -> `EquityMark` values, with a `CashFlow` for every deposit and withdrawal.

A mark that has a date and no time of day is that of the end of the day: at midnight nobody knew it yet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from memtape.brokers.cells import BadCell
from memtape.brokers.importer import FoundRow, ImportProblem
from memtape.brokers.mapped_table import MappedTable
from memtape.core.codec import decimal_text, time_text
from memtape.core.observed import CashFlow, EquityMark
from memtape.core.values import ZERO, read
from memtape.errors import Invalid

END_OF_DAY = timedelta(hours=23, minutes=59, seconds=59)
MAX_NAMED_ACCOUNTS = 5
FLOW_FIELDS = ("flow", "deposit", "withdrawal")
_DATE_ONLY = re.compile(
    r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}|\d{8}|[A-Za-z]{3,9} \d{1,2},? \d{4}|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4}"
)


def read_equity(table: MappedTable) -> tuple[list[FoundRow], Decimal | None]:
    """Returns the marks and flows of a file, and the money that the account started with. Other rows are reported in `table`."""
    refuse_several_accounts(table)
    rows = sorted(_equity_rows(table), key=lambda row: row[1])
    start = starting_mark([(equity, flow) for _, _, equity, flow in rows])
    found: list[FoundRow] = []
    ids = flow_ids([(t, flow) for _, t, _, flow in rows])
    known: dict[datetime, tuple[int, Decimal]] = {}
    for place, (row, t, equity, flow) in enumerate(rows):
        line = table.source.lines[row]
        if equity is not None:
            if t in known and known[t][1] != equity:
                problem = f"line {known[t][0]} has another equity for {time_text(t)}: {decimal_text(known[t][1])}"
                table.problems.append(ImportProblem(line, "equity", problem, "Delete one of the rows"))
                continue
            if t not in known:
                known[t] = line, equity
                found += _value(table, line, EquityMark, {"t": t, "equity": equity})
        if flow and not (place == 0 and start is not None and is_first_funding(equity, flow)):
            found += _value(table, line, CashFlow, {"id": ids[place], "t": t, "usd": flow})
    if rows and start is not None and is_first_funding(*rows[0][2:]):
        table.notes.append(f"the first deposit, {decimal_text(start)}, is what the account started with")
    return found, start


def _value(table: MappedTable, line: int, kind: type, data: dict[str, object]) -> list[FoundRow]:
    try:
        return [FoundRow(line, read(kind, data))]
    except Invalid as error:
        table.add_refused(line, error)
        return []


def _equity_rows(table: MappedTable) -> Iterator[tuple[int, datetime, Decimal | None, Decimal]]:
    """Yields row, time, equity and cash flow of every row that can be read."""
    times, marks, flows = mark_times(table), table.numbers("equity"), cash_flows(table)
    for row, (t, equity, flow) in enumerate(zip(times, marks, flows, strict=True)):
        bad = [(name, cell) for name, cell in (("time", t), ("equity", equity), ("flow", flow)) if isinstance(cell, BadCell)]
        if t is None:
            bad.append(("time", BadCell("is empty", "Fill it in, or delete the row")))
        for name, cell in bad:
            table.add_unreadable(row, name, cell)
        if not bad and equity is None and not flow:
            problem, fix = "is empty: the row is no mark and is skipped", "To import it, fill it in"
            table.problems.append(ImportProblem(table.source.lines[row], "equity", problem, fix, blocks=False))
            continue
        if not bad:
            assert isinstance(t, datetime) and not isinstance(equity, BadCell) and not isinstance(flow, BadCell)
            yield row, t, equity, flow or ZERO


# ---- shared with files of positions ------------------------------------------------------------------------------------------


def mark_times(table: MappedTable) -> list[datetime | BadCell | None]:
    """Returns the times of marks; a date without a time of day is the end of that day."""
    cells = table.cells("time")
    dates = {cell for cell in set(cells) if _DATE_ONLY.fullmatch(cell)}
    if dates:
        table.notes.append("a date without a time of day is read as the end of that day, 23:59:59")
    moments = table.moments("time")
    return [
        moment + END_OF_DAY if cell in dates and isinstance(moment, datetime) else moment
        for cell, moment in zip(cells, moments, strict=True)
    ]


def cash_flows(table: MappedTable) -> list[Decimal | BadCell | None]:
    """Returns the deposits (+) and withdrawals (-) of each row, whatever sign the column of withdrawals has."""
    columns = {name: table.numbers(name) for name in FLOW_FIELDS}
    found: list[Decimal | BadCell | None] = []
    for flow, deposit, withdrawal in zip(*columns.values(), strict=True):
        bad = next((cell for cell in (flow, deposit, withdrawal) if isinstance(cell, BadCell)), None)
        if bad is not None:
            found.append(bad)
            continue
        assert not any(isinstance(cell, BadCell) for cell in (flow, deposit, withdrawal))
        # A column of both is used instead of its parts.
        found.append(flow if flow is not None else (deposit or ZERO) - abs(withdrawal or ZERO))
    return found


def flow_ids(flows: Sequence[tuple[datetime, Decimal]]) -> list[str]:
    """Returns the ids of cash flows: made from time and amount, so that every file gives the same. Equal ones are numbered.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 3, 2, 12, tzinfo=UTC)
    >>> flow_ids([(noon, Decimal("500.0")), (noon, Decimal(500))])
    ['flow-2026-03-02T12:00:00Z-500', 'flow-2026-03-02T12:00:00Z-500#2']
    """
    counts: Counter[str] = Counter()
    found: list[str] = []
    for t, amount in flows:
        name = f"flow-{time_text(t)}-{decimal_text(amount)}"
        counts[name] += 1
        found.append(name if counts[name] == 1 else f"{name}#{counts[name]}")
    return found


def is_first_funding(equity: Decimal | None, flow: Decimal) -> bool:
    """Returns True if a deposit is all that the account has: before it there was no account."""
    return equity is not None and flow > 0 and flow == equity


def starting_mark(rows: Sequence[tuple[Decimal | None, Decimal]]) -> Decimal | None:
    """Returns what the account started with: its first equity, without what was paid in or out at that moment.

    >>> starting_mark([(Decimal(10_000), Decimal(0)), (Decimal(10_100), Decimal(0))])
    Decimal('10000')
    >>> starting_mark([(Decimal(10_000), Decimal(10_000))]), starting_mark([(Decimal(10_000), Decimal(2_500))])
    (Decimal('10000'), Decimal('7500'))
    """
    first = next(((equity, flow) for equity, flow in rows if equity is not None), None)
    if first is None or first[0] is None:
        return None
    start = first[0] if is_first_funding(*first) else first[0] - first[1]
    return start if start > 0 else None


def refuse_several_accounts(table: MappedTable) -> None:
    """Report a file of several accounts: an agent has one account, and marks of two would be taken for one that jumps."""
    names = sorted(set(table.cells("account")) - {""}) if "account" in table else []
    if len(names) > 1:
        heading = table.heading("account")
        shown = ", ".join(names[:MAX_NAMED_ACCOUNTS]) + (", ..." if len(names) > MAX_NAMED_ACCOUNTS else "")
        problem = f"the file holds {len(names)} accounts ({heading}: {shown})"
        fix = f"Import one at a time, each into an agent of its own, with --where {heading}={names[0]}"
        table.problems.append(ImportProblem(None, "account", problem, fix))
