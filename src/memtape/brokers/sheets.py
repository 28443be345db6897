"""A table with its mapping: each field as a column of values, read by the same rules for all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal, localcontext

from memtape.brokers.cells import EMPTY, BadCell, Times, decide_dates, decide_decimal, numbers, zone_of
from memtape.brokers.files import CellTable
from memtape.brokers.headings import says_utc
from memtape.brokers.importer import ImportOptions, ImportProblem
from memtape.brokers.mapping import NUMBERS, TIMES, Chosen
from memtape.brokers.texts import Texts
from memtape.core.values import MONEY, ZERO
from memtape.errors import Invalid

NO_ZONE = "times have no zone; read as UTC"
STABLE = frozenset({"USD", "USDT", "USDC", "BUSD", "FDUSD", "DAI", "TUSD"})  # one unit of account as far as fees go


@dataclass(slots=True)
class Sheet:
    """One file being read."""

    table: CellTable
    chosen: Chosen
    wishes: ImportOptions
    style: str
    times: Times
    texts: Texts = field(default_factory=Texts)
    problems: list[ImportProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)  # rows that are no trades, by what they are

    @classmethod
    def of(cls, table: CellTable, chosen: Chosen, wishes: ImportOptions) -> Sheet:
        """Take the decisions that concern the whole file."""
        settings = chosen.settings
        said = [table.column(at) for name in NUMBERS & chosen.columns.keys() for at in chosen.columns[name]]
        notes: list[str] = []
        if "decimal" in settings:
            style = settings["decimal"]
        else:
            style, note = decide_decimal(said, table.separator)
            notes += [note] if note else []
            if style == "comma":
                settings["decimal"] = style
        dates = settings.get("dates")
        if dates is None and (dates := decide_dates(chosen.cells(table, name) for name in TIMES & chosen.columns.keys())):
            notes.append(f"dates are {'day/month' if dates == 'dmy' else 'month/day'}, as those above 12 show")
            settings["dates"] = dates
        zone, ahead = zone_of(settings["zone"]) if "zone" in settings else (None, timedelta())
        return cls(table, chosen, wishes, style, Times(dates, zone, ahead), notes=notes)

    def __contains__(self, name: str) -> bool:
        return name in self.chosen

    def __len__(self) -> int:
        return len(self.table.rows)

    # ---- columns ----------------------------------------------------------------------------------------------------

    def cells(self, name: str, glue: str = " ") -> list[str]:
        """A field's texts; empty ones if the file does not have it."""
        return self.chosen.cells(self.table, name, glue)

    def heading(self, name: str) -> str:
        """What the file calls a field."""
        places = self.chosen.columns.get(name, ())
        return self.table.header[places[0]] if places else ""

    def numbers(self, name: str) -> list[Decimal | BadCell | None]:
        """A field's numbers; several columns are added up."""
        if name not in self:
            return [None] * len(self)
        places = self.chosen.columns.get(name, ())
        if not places:
            return self._read_numbers(name, self.cells(name))
        columns = [self._read_numbers(name, self.table.column(at)) for at in places]
        return columns[0] if len(columns) == 1 else [total(several) for several in zip(*columns, strict=True)]

    def _read_numbers(self, name: str, cells: Sequence[str]) -> list[Decimal | BadCell | None]:
        if name == "qty" and any(" / " in cell for cell in cells):  # MetaTrader: closed / total
            cells = [cell.partition(" / ")[0] for cell in cells]
        return numbers(cells, self.style, percent=name == "confidence")

    def moments(self, name: str) -> list[datetime | BadCell | None]:
        """A field's times."""
        return self.times.column(self.cells(name), utc=says_utc(self.heading(name)))

    def lines(self, name: str, limit: int) -> list[str | None]:
        """A field's texts, cleaned."""
        if name not in self:
            return [None] * len(self)
        cells = self.cells(name)
        known = {cell: None if cell.lower() in EMPTY else self.texts.line(cell, limit) for cell in set(cells)}
        return [known[cell] for cell in cells]

    def flags(self, name: str) -> list[bool | None]:
        """A field's yes or no."""
        if name not in self:
            return [None] * len(self)
        words = {"true": True, "1": True, "yes": True, "1.0": True, "false": False, "0": False, "no": False, "0.0": False}
        return [words.get(cell.lower()) for cell in self.cells(name)]

    def costs(self, name: str) -> list[Decimal | BadCell | None]:
        """A field's costs, paid ones positive: most rows show which sign the source gives them."""
        found = self.numbers(name)
        if "costs" not in self.chosen.settings:
            amounts = [value for value in found if isinstance(value, Decimal)]
            if sum(value < 0 for value in amounts) > sum(value > 0 for value in amounts):
                self.chosen.settings["costs"] = "negative"
                self.notes.append("fees are written with a minus: read as costs")
        if self.chosen.settings.get("costs") == "negative":
            return [-value if isinstance(value, Decimal) else value for value in found]
        return found

    # ---- what there is to say ---------------------------------------------------------------------------------------

    def refused(self, line: int, error: Invalid) -> None:
        """A row that memtape's own rules do not allow."""
        self.problems.append(ImportProblem(line, "row" if error.field == "input" else error.field, error.problem, error.fix))

    def wrong(self, row: int, name: str, bad: BadCell) -> None:
        """A row that cannot be read."""
        heading = self.heading(name)
        shown = f"{name} ({heading})" if heading and heading != name else name
        self.problems.append(ImportProblem(self.table.lines[row], shown, bad.problem, bad.fix))

    def fee(self, fee: Decimal, currency: str, symbol: str, price: Decimal) -> Decimal | BadCell:
        """A fee in the account's currency, where that is possible without a rate from elsewhere."""
        own = self.wishes.currency
        if not fee or not currency or currency == own or {currency, own} <= STABLE:
            return fee
        base = symbol.replace("-", "/").partition("/")[0]
        if base == currency or ("/" not in symbol and symbol.startswith(currency) and len(symbol) > len(currency)):
            with localcontext(MONEY):
                return round(fee * price, 18).normalize()
        return BadCell(f"the fee is in {currency[:12]}, the account in {own}",
                   "Convert it in the file, or leave fees out: --map fees=")  # fmt: skip

    def finish(self) -> None:
        """Say what concerns the file as a whole."""
        if self.times.naive:
            fix = "Say --zone Europe/Berlin (or another) if not"
            self.problems.insert(0, ImportProblem(None, "zone", NO_ZONE, fix, blocks=False))
        if self.times.twice:
            self.notes.append(f"{self.times.twice} times fall in the hour of a clock change: read as if it were yet to come")
        if self.skipped:
            several = ", ".join(f"{word} {n}" for word, n in self.skipped.most_common(8))
            self.notes.append(f"{sum(self.skipped.values())} rows are no executions and were skipped: {several}")
        self.notes += self.texts.notes()


def total(several: Sequence[Decimal | BadCell | None]) -> Decimal | BadCell | None:
    """The sum of what is there."""
    found: Decimal | None = None
    for value in several:
        if isinstance(value, BadCell):
            return value
        if value is not None:
            found = (found or ZERO) + value
    return found
