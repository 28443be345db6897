"""Files of decisions and predictions -> `Decision` values, each with its stated outcome if the file has one.

A prediction is a decision that states a direction. With a stop it is followed on later bars like any other decision; its
probability is its confidence and is kept as it was stated. A stop or target on the wrong side of the entry is left out and
reported: a plan that contradicts itself cannot be followed, and the rest of the row is still true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from memtape.brokers.cells import EMPTY_WORDS, BadCell, shown_cell
from memtape.brokers.headings import plain_name
from memtape.brokers.horizons import bars_of, read_frame, read_horizon, unit_in_heading
from memtape.brokers.identity import RowContent, row_ids
from memtape.brokers.importer import FoundOutcome, FoundRow, ImportProblem
from memtape.brokers.kinds import refuses
from memtape.brokers.mapped_table import MappedTable
from memtape.brokers.roundtrips import LABEL_FIELDS, MAX_LABEL_CHARS, MAX_NOTE_CHARS, PROGRESS_ROWS, choose_strategy, tag_list
from memtape.brokers.sides import BUY, NEITHER, SELL, SideWords
from memtape.brokers.stated_results import ResultColumns
from memtape.core.codec import decimal_text, micros
from memtape.core.decisions.outcome_bars import FRAME_SECONDS
from memtape.core.decisions.outcomes import DEFAULT_EXPIRY_BARS, DEFAULT_FRAME, OutcomeCard, wrong_card_fields
from memtape.core.observed import Decision, Frame, Side
from memtape.core.values import REASON_LENGTH, read
from memtape.errors import Invalid

MAX_ORDER_IDS = 64
_CLOSING_WORDS = re.compile(r"close|exit|reduce|trim|cover|liquidate|take_?profit|flatten|scale_?out")
_WORD_BREAKS = re.compile(r"[\s\-/]+")
_SEPARATORS = re.compile(r"[,;|\s]+")
# To sell at the market may also be to close a long, so these words alone are no direction.
_ORDER_WORDS = frozenset({"sell", "s", "sold", "sld"})
_RISE_NAMES = frozenset({"probabilityup", "probup", "pup"})


@dataclass(frozen=True, slots=True)
class _DecisionRow:
    row: int
    line: int
    t: datetime
    symbol: str | None
    action: str | None
    side: Side | None
    numbers: Mapping[str, Decimal]  # qty, entry_price, stop, target, price, probability
    horizon: tuple[Frame | None, int] | None


def read_decisions(table: MappedTable) -> list[FoundRow]:
    """Returns every row that is a decision. The others are reported in `table`."""
    choose_strategy(table)
    rows = list(_decision_rows(table))
    names = row_ids(table, [row.row for row in rows], _contents(table, rows), [row.t for row in rows])
    return list(_build_decisions(table, rows, names))


# ---- rows ----------------------------------------------------------------------------------------------------------------


def _decision_rows(table: MappedTable) -> Iterator[_DecisionRow]:
    times, symbols = table.moments("time"), table.cells("symbol")
    actions, sides = _actions(table), _stated_sides(table)
    prices = table.numbers("price")
    entries = table.numbers("entry_price")
    paid = [entry if isinstance(entry, Decimal) else price for entry, price in zip(entries, prices, strict=True)]
    columns: dict[str, Sequence[Decimal | BadCell | None]] = {
        "qty": table.quantities(paid),
        "entry_price": entries, "stop": table.numbers("stop"), "target": table.numbers("target"), "price": prices,
        "probability": table.numbers("probability"),
    }  # fmt: skip
    horizons = _horizons(table, times)
    words = SideWords(table.cells("action"), held=True)
    for row, (t, symbol, action, side) in enumerate(zip(times, symbols, actions, sides, strict=True)):
        if action is None and side is None and columns["target"][row] is None:
            table.skipped["no action or direction"] += 1
            continue
        if action is not None and not symbol and not refuses(action) and words.side(table.cells("action")[row]) == NEITHER:
            # A row of the account, like a deposit or the start of a log.
            table.skipped[action[:20]] += 1
            continue
        cells = {name: column[row] for name, column in columns.items()}
        bad = [(name, cell) for name, cell in (("time", t), ("side", side), *cells.items()) if isinstance(cell, BadCell)]
        if t is None:
            bad.append(("time", BadCell("is empty", "Fill it in, or delete the row")))
        if not symbol and not (action and refuses(action)):
            bad.append(("symbol", BadCell("is empty", "Fill it in, or give --symbol")))
        for name, cell in bad:
            table.add_unreadable(row, name, cell)
        if bad:
            continue
        assert isinstance(t, datetime) and not isinstance(side, BadCell)
        # A price of 0 means that there is none.
        numbers = {name: cell for name, cell in cells.items() if isinstance(cell, Decimal) and (cell or name == "probability")}
        if "qty" in numbers:
            numbers["qty"] = abs(numbers["qty"])
        line = table.source.lines[row]
        direction = side or _planned_side(action, numbers)
        if action is None and direction is None:
            empty = "names neither an action nor a direction"
            table.problems.append(ImportProblem(line, "row", empty, "Fill in one of them, or delete the row"))
            continue
        yield _without_wrong_prices(
            table, _DecisionRow(row, line, t, symbol or None, action, direction, numbers, horizons[row])
        )


def _actions(table: MappedTable) -> list[str | None]:
    """Returns the actions in one spelling: `No Trade` and `no_trade` are one."""
    lines = table.lines("action", MAX_LABEL_CHARS)
    return [None if line is None else _WORD_BREAKS.sub("_", line.lower()) for line in lines]


def _stated_sides(table: MappedTable) -> list[Side | BadCell | None]:
    """Returns the direction that each row states: in its own column, else by a word like `long` or `buy_to_enter`."""
    found: list[Side | BadCell | None] = [None] * len(table)
    for name in ("action", "side"):
        if name not in table:
            continue
        cells = table.cells(name)
        words = SideWords(cells, held=True, name=plain_name(table.heading(name)))
        for row, cell in enumerate(cells):
            if cell.lower() in EMPTY_WORDS or _CLOSING_WORDS.search(_WORD_BREAKS.sub("_", cell.lower())):
                continue
            side = words.side(cell)
            if name == "action" and cell.strip().lower() in _ORDER_WORDS:
                continue
            if side in (BUY, SELL):
                found[row] = "long" if side == BUY else "short"
            elif side is None and name == "side" and not _is_neutral(cell):
                found[row] = BadCell(f"{shown_cell(cell)} is no direction", "Write long or short, up or down, or leave it empty")
    return found


def _is_neutral(cell: str) -> bool:
    return refuses(cell) or cell.strip().lower() in ("neutral", "flat", "sideways", "mixed", "unclear", "0")


def _planned_side(action: str | None, numbers: Mapping[str, Decimal]) -> Side | None:
    """Returns the direction that the prices of a plan show, where no word does: a stop below the target is that of a long.

    A decision to hold keeps what is open, so its stop and target plan nothing new.
    """
    if action is not None and (refuses(action) or _CLOSING_WORDS.search(action)):
        return None
    stop, target = numbers.get("stop"), numbers.get("target")
    if stop is not None and target is not None and stop != target:
        return "long" if stop < target else "short"
    if action in _ORDER_WORDS:
        return "short" if stop is not None else None
    at = numbers.get("entry_price", numbers.get("price"))
    if action is None and target is not None and at is not None and target != at:
        return "long" if target > at else "short"
    return None


def _without_wrong_prices(table: MappedTable, row: _DecisionRow) -> _DecisionRow:
    """Returns a row without the stop or target that contradicts its entry. The missing price is reported."""
    numbers = row.numbers
    card = OutcomeCard(t=row.t, side=row.side, entry_price=numbers.get("entry_price"), stop=numbers.get("stop"),
                       target=numbers.get("target"))  # fmt: skip
    wrong = wrong_card_fields(card)
    for each in wrong:
        fix = "The decision is imported without it. If it is right, correct the side or the entry"
        table.problems.append(ImportProblem(row.line, each.field, each.problem, fix, blocks=False))
    left_out = {each.field for each in wrong}
    return replace(row, numbers={name: value for name, value in numbers.items() if name not in left_out}) if wrong else row


def _horizons(table: MappedTable, times: Sequence[datetime | BadCell | None]) -> list[tuple[Frame | None, int] | None]:
    """Returns after how many bars each decision expires, and of which frame."""
    frames = [read_frame(cell) if cell else None for cell in table.cells("frame")]
    unit = unit_in_heading(table.heading("horizon"))
    found = [
        read_horizon(cell, unit, frame) if cell else None for cell, frame in zip(table.cells("horizon"), frames, strict=True)
    ]
    unread = sum(bool(cell) and horizon is None for cell, horizon in zip(table.cells("horizon"), found, strict=True))
    if unread:
        table.notes.append(
            f"{table.heading('horizon') or 'horizon'}: {unread} values state no length of time like 24h or 5 days: kept as text"
        )
    if "expires_at" in table:
        for row, end in enumerate(table.moments("expires_at")):
            start = times[row]
            if found[row] is None and isinstance(end, datetime) and isinstance(start, datetime) and end > start:
                found[row] = bars_of(end - start, frames[row])
    return [horizon or ((frame, DEFAULT_EXPIRY_BARS) if frame else None) for horizon, frame in zip(found, frames, strict=True)]


# ---- values --------------------------------------------------------------------------------------------------------------


def _contents(table: MappedTable, rows: Sequence[_DecisionRow]) -> list[RowContent]:
    """Returns what makes rows without an id equal. What became of a decision is no part of it: a later export adds that."""
    accounts = table.cells("account") if "account" in table else [""] * len(table)
    reasons = table.cells("reason")
    return [
        (r.symbol or "", r.action or "", r.side or "", micros(r.t), reasons[r.row], accounts[r.row],
         *(f"{name}={value.normalize()}" for name, value in sorted(r.numbers.items())))
        for r in rows
    ]  # fmt: skip


def _build_decisions(table: MappedTable, rows: Sequence[_DecisionRow], names: Sequence[str]) -> Iterator[FoundRow]:
    texts: dict[str, Sequence[Any]] = {
        "strategy": table.lines("strategy", MAX_LABEL_CHARS),
        "confidence": _confidences(table),
        "tags": [tag_list(text) if text else None for text in table.lines("tags", 1000)],
    }
    slots = {name: table.lines(name, MAX_NOTE_CHARS) for name in ("horizon", "invalidation", "note") if name in table}
    reasons, whole_reasons = table.lines("reason", REASON_LENGTH), table.lines("reason", MAX_NOTE_CHARS)
    situations: dict[str, list[Any]] = {name: table.labels(name, MAX_LABEL_CHARS) for name in LABEL_FIELDS if name in table}
    for name in ("atr_d1", "atr_h1", "atr_m5"):
        if name in table:
            situations[name] = [float(v) if isinstance(v, Decimal) and v > 0 else None for v in table.numbers(name)]
    results = ResultColumns.of(table)
    of_rise = "confidence" not in table and plain_name(table.heading("probability")) in _RISE_NAMES
    for done, (r, id_) in enumerate(zip(rows, names, strict=True)):
        if table.options.on_progress and done % PROGRESS_ROWS == 0:
            table.options.on_progress(done, len(rows))
        data: dict[str, Any] = {"id": id_, "t": r.t, "symbol": r.symbol, "action": r.action, "side": r.side}
        data |= {name: r.numbers[name] for name in ("qty", "entry_price", "stop", "target") if name in r.numbers}
        data |= {name: column[r.row] for name, column in texts.items()}
        if of_rise and r.side == "short" and data["confidence"] is not None:
            # The probability of a rise is the confidence in a long, and its complement that in a short.
            data["confidence"] = 1 - data["confidence"]
        own_slots = {name: column[r.row] for name, column in slots.items() if column[r.row]}
        data["reason"] = reasons[r.row]
        # A reason is short, because briefs show it. The whole text is the thesis of the decision.
        if whole_reasons[r.row] and len(whole_reasons[r.row] or "") > REASON_LENGTH:
            own_slots["thesis"] = whole_reasons[r.row]
        if "probability" in r.numbers:
            own_slots["probability"] = decimal_text(r.numbers["probability"])
        if r.horizon is not None:
            data["frame"], data["expiry_bars"] = r.horizon
        market = {name: column[r.row] for name, column in situations.items() if column[r.row]}
        if "price" in r.numbers and r.numbers["price"] > 0:
            market["price"] = float(r.numbers["price"])
        data |= {"slots": own_slots or None, "situation": market or None, "order_ids": _order_ids(table, r.row) or None}
        try:
            decision: Decision = read(Decision, {name: value for name, value in data.items() if value is not None})
        except Invalid as error:
            table.add_refused(r.line, error)
            continue
        yield FoundRow(r.line, decision, outcome=_outcome(table, r, decision, results))


def _confidences(table: MappedTable) -> list[Decimal | None]:
    """Returns the confidence in the stated direction: its own column, else the probability."""
    if "confidence" in table or "probability" not in table:
        return table.confidences()
    return table.scaled("probability")


def _order_ids(table: MappedTable, row: int) -> tuple[str, ...]:
    """Returns the orders and trades that a decision names, so that their fills and trades belong to it."""
    found: list[str] = []
    for name in ("order_id", "trade_id"):
        for cell in _SEPARATORS.split(table.cells(name)[row]) if name in table else ():
            if cell.lower() not in EMPTY_WORDS and cell not in ("0", "0.0") and len(cell) <= 120:
                found.append(cell)
    return tuple(dict.fromkeys(found))[:MAX_ORDER_IDS]


def _outcome(table: MappedTable, row: _DecisionRow, decision: Decision, results: ResultColumns) -> FoundOutcome | None:
    """Returns what the file states about the outcome, and from when on that was known."""
    stated = results.outcome(row.row, decision)
    if stated is None:
        return None
    if stated.exit_at is not None and stated.exit_at < row.t:
        problem = "the outcome is before the decision"
        fix = "Correct one of the times; the decision is imported without its outcome"
        table.problems.append(ImportProblem(row.line, "outcome_at", problem, fix, blocks=False))
        return None
    known_at = stated.exit_at
    if known_at is None and row.horizon is not None:
        frame, bars = row.horizon
        known_at = row.t + timedelta(seconds=FRAME_SECONDS[frame or DEFAULT_FRAME] * bars)
    return FoundOutcome(stated, known_at)
