"""A table with its column mapping: each field is a column of values, read by the same rules in all rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal, localcontext

from memtape.brokers.account import DEFAULT_CURRENCY, FileCurrency, find_currency, same_currency
from memtape.brokers.cells import EMPTY_WORDS, BadCell, TimeReader, date_order, decimal_style, read_numbers, read_zone
from memtape.brokers.confidence import scale_confidence
from memtape.brokers.files import CellTable
from memtape.brokers.headings import LOT_NAMES, plain_name, stated_offset
from memtape.brokers.importer import ImportOptions, ImportProblem
from memtape.brokers.mapping import NUMBER_FIELDS, TIME_FIELDS, ColumnMapping
from memtape.brokers.texts import TextCleaner
from memtape.core.labels import LabelKind, fold_label
from memtape.core.values import MONEY, ZERO
from memtape.errors import Invalid

NO_ZONE_PROBLEM = "times have no zone; read as UTC"
SMALLEST_STEP = Decimal(1).scaleb(-18)  # of a quantity
_MONEY_CODES = "USD|EUR|GBP|CHF|JPY|AUD|CAD|NZD|SEK|NOK"
_FOREX = re.compile(rf"(?:{_MONEY_CODES}|XAU|XAG|XPT|XPD)(?:{_MONEY_CODES})")
_COIN = re.compile(r"(?<=[\d\s])[A-Z]{2,6}(?=\)?$)|^[A-Z]{2,6}(?=\s*[\d(-])")


@dataclass(slots=True)
class MappedTable:
    """A file while it is read."""

    source: CellTable
    mapping: ColumnMapping
    options: ImportOptions
    decimal: str  # point, comma or unclear
    times: TimeReader
    currency: FileCurrency = field(default_factory=FileCurrency)
    texts: TextCleaner = field(default_factory=TextCleaner)
    problems: list[ImportProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)  # rows that are not trades, by type

    @property
    def row_word(self) -> str:
        """What a row that was skipped is not."""
        return "executions" if self.mapping.kind in ("trades", "fills") else self.mapping.kind

    @classmethod
    def of(cls, source: CellTable, mapping: ColumnMapping, options: ImportOptions) -> MappedTable:
        """Take the decisions that concern the whole file."""
        settings = mapping.settings
        amounts = [source.column(at) for name in NUMBER_FIELDS & mapping.columns.keys() for at in mapping.columns[name]]
        notes: list[str] = []
        if "decimal" in settings:
            decimal = settings["decimal"]
        else:
            decimal, note = decimal_style(amounts, source.separator)
            notes += [note] if note else []
            if decimal == "comma":
                settings["decimal"] = decimal
        dates = settings.get("dates")
        if dates is None and (dates := date_order(mapping.cells(source, name) for name in TIME_FIELDS & mapping.columns.keys())):
            notes.append(f"dates are {'day/month' if dates == 'dmy' else 'month/day'}, as values above 12 show")
            settings["dates"] = dates
        zone, ahead = read_zone(settings["zone"]) if "zone" in settings else (None, timedelta())
        currency = find_currency(source, mapping)
        return cls(source, mapping, options, decimal, TimeReader(dates, zone, ahead), currency, notes=notes)

    def __contains__(self, name: str) -> bool:
        return name in self.mapping

    def __len__(self) -> int:
        return len(self.source.rows)

    # ---- columns ----------------------------------------------------------------------------------------------------

    def cells(self, name: str, glue: str = " ") -> list[str]:
        """Returns a field's texts; empty texts if the file does not have the field."""
        return self.mapping.cells(self.source, name, glue)

    def heading(self, name: str) -> str:
        """Returns the file's name of a field."""
        places = self.mapping.columns.get(name, ())
        return self.source.header[places[0]] if places else ""

    def numbers(self, name: str) -> list[Decimal | BadCell | None]:
        """Returns a field's numbers. Several columns are added up."""
        if name not in self:
            return [None] * len(self)
        places = self.mapping.columns.get(name, ())
        if not places:
            return self._read_numbers(name, self.cells(name))
        columns = [self._read_numbers(name, self.source.column(at)) for at in places]
        return columns[0] if len(columns) == 1 else [sum_cells(several) for several in zip(*columns, strict=True)]

    def _read_numbers(self, name: str, cells: Sequence[str]) -> list[Decimal | BadCell | None]:
        # MetaTrader writes "closed / total".
        if name == "qty" and any(" / " in cell for cell in cells):
            cells = [cell.partition(" / ")[0] for cell in cells]
        return read_numbers(cells, self.decimal, percent=name in ("confidence", "probability"))

    def quantities(self, prices: Sequence[Decimal | BadCell | None]) -> list[Decimal | BadCell | None]:
        """Returns the quantities; of a file that has amounts of money instead, those amounts divided by these prices."""
        if "qty" in self or "value" not in self:
            self._ask_for_size_of_lot()
            return self.numbers("qty")
        self.notes.append(f"{self.heading('value') or 'value'} is an amount of money: qty is that amount divided by the price")
        found: list[Decimal | BadCell | None] = []
        with localcontext(MONEY):
            for amount, price in zip(self.numbers("value"), prices, strict=True):
                if isinstance(amount, Decimal):
                    priced = isinstance(price, Decimal) and price > 0
                    found.append((amount / price).quantize(SMALLEST_STEP).normalize() if priced else None)  # type: ignore[operator]
                else:
                    found.append(amount)
        return found

    def _ask_for_size_of_lot(self) -> None:
        """Report quantities in lots if neither a multiplier nor a profit says how many units one has."""
        if plain_name(self.heading("qty")) in LOT_NAMES and not any(n in self for n in ("multiplier", "pnl", "net_pnl")):
            # A lot of a currency or a metal is never one unit; one of an index often is.
            large = any(_FOREX.match(cell.upper().replace("/", "")) for cell in self.cells("symbol"))
            problem = f"{self.heading('qty')} are lots, and nothing in the file says how many units one has"
            fix = "Give it, like --map multiplier==100000, and --where symbol=EURUSD if symbols differ"
            self.problems.append(ImportProblem(None, "qty", problem if large else f"{problem}; read as one", fix, blocks=large))

    def confidences(self) -> list[Decimal | None]:
        """Returns the confidences from 0 to 1; None where the file has none or its scale is unclear."""
        return self.scaled("confidence")

    def scaled(self, name: str) -> list[Decimal | None]:
        """Returns a field that is a share or a score, from 0 to 1; None where the file has none or its scale is unclear."""
        if name not in self:
            return [None] * len(self)
        stated = self.mapping.settings.get("confidence_scale")
        found, scale, notes = scale_confidence(self.numbers(name), self.heading(name) or name, stated)
        if scale is not None:
            self.mapping.settings["confidence_scale"] = scale
        self.notes += notes
        return found

    def labels(self, name: LabelKind, limit: int) -> list[str | None]:
        """Returns a field's labels, each in the one spelling of its vocabulary."""
        lines = self.lines(name, limit)
        folded = {line: fold_label(name, line) for line in set(lines) if line is not None}
        return [None if line is None else folded[line] for line in lines]

    def moments(self, name: str) -> list[datetime | BadCell | None]:
        """Returns a field's times."""
        return self.times.column(self.cells(name), stated_offset(self.heading(name)))

    def lines(self, name: str, limit: int) -> list[str | None]:
        """Returns a field's texts, cleaned."""
        if name not in self:
            return [None] * len(self)
        cells = self.cells(name)
        known = {cell: None if cell.lower() in EMPTY_WORDS else self.texts.line(cell, limit) for cell in set(cells)}
        return [known[cell] for cell in cells]

    def flags(self, name: str) -> list[bool | None]:
        """Returns a field's flags."""
        if name not in self:
            return [None] * len(self)
        words = {"true": True, "1": True, "yes": True, "1.0": True, "false": False, "0": False, "no": False, "0.0": False}
        return [words.get(cell.lower()) for cell in self.cells(name)]

    def costs(self, name: str) -> list[Decimal | BadCell | None]:
        """Returns a field's costs, positive if paid. The sign in most rows shows how the source writes them."""
        values = self.numbers(name)
        if "costs" not in self.mapping.settings:
            amounts = [value for value in values if isinstance(value, Decimal)]
            if sum(value < 0 for value in amounts) > sum(value > 0 for value in amounts):
                self.mapping.settings["costs"] = "negative"
                self.notes.append("fees have a minus sign: read as costs")
        if self.mapping.settings.get("costs") == "negative":
            return [-value if isinstance(value, Decimal) else value for value in values]
        return values

    # ---- problems and notes ---------------------------------------------------------------------------------------

    def add_refused(self, line: int, error: Invalid) -> None:
        """Report a row that breaks rules of memtape."""
        for field_, problem, fix in error.errors:
            self.problems.append(ImportProblem(line, "row" if field_ == "input" else field_, problem, fix))

    def add_unreadable(self, row: int, name: str, bad: BadCell, *, blocks: bool = True) -> None:
        """Report a cell for which a row cannot be read; one that does not block is left out, and the row counts."""
        heading = self.heading(name)
        shown = f"{name} ({heading})" if heading and heading != name else name
        self.problems.append(ImportProblem(self.source.lines[row], shown, bad.problem, bad.fix, blocks=blocks))

    def fee_currencies(self) -> list[str] | None:
        """Returns the currency of each fee: as its own column says, else as the cell does, like 0.5USDT; None if nothing does."""
        if "fee_currency" in self:
            return self.cells("fee_currency")
        if len(self.mapping.columns.get("fees", ())) != 1:
            return None
        units = [coin[0] if (coin := _COIN.search(cell)) else "" for cell in self.cells("fees")]
        return units if any(units) else None

    def fee(self, fee: Decimal, currency: str, symbol: str, price: Decimal) -> Decimal | BadCell:
        """Returns a fee in the account's currency, if that needs no rate from elsewhere."""
        own = self.currency.stated or self.options.account_currency or DEFAULT_CURRENCY
        if not fee or not currency or same_currency(currency, own):
            return fee
        base = symbol.replace("-", "/").partition("/")[0]
        if base == currency or ("/" not in symbol and symbol.startswith(currency) and len(symbol) > len(currency)):
            with localcontext(MONEY):
                return round(fee * price, 18).normalize()
        return BadCell(f"the fee is in {currency[:12]}, the account is in {own}",
                   "Convert it in the file, or leave fees out: --map fees=")  # fmt: skip

    def finish(self) -> None:
        """Report what concerns the whole file."""
        if self.times.naive:
            fix = "If they are not, give the zone, like --zone Europe/Berlin"
            self.problems.insert(0, ImportProblem(None, "zone", NO_ZONE_PROBLEM, fix, blocks=False))
        self._check_currency()
        if self.times.ambiguous:
            self.notes.append(f"{self.times.ambiguous} times fall in the hour of a clock change: read as before the change")
        if self.skipped:
            several = ", ".join(f"{word} {n}" for word, n in self.skipped.most_common(8))
            self.notes.append(f"{sum(self.skipped.values())} rows are not {self.row_word} and were skipped: {several}")
        self.notes += self.texts.notes()

    def _check_currency(self) -> None:
        """Report amounts in several currencies, or in another one than the account's."""
        stated, account = self.currency.stated, self.options.account_currency
        if len(self.currency.found) > 1:
            problem = f"the amounts are in {' and '.join(self.currency.found)} ({self.currency.source})"
            fix = "Import one currency at a time, with --where COLUMN=VALUE, or state the one that all are in, with --currency"
            self.problems.append(ImportProblem(None, "currency", problem, fix))
        elif stated and account and not same_currency(stated, account):
            problem = f"the file is in {stated} ({self.currency.source}), the account of the agent is in {account}"
            fix = f"Import it into an agent of its own; if the amounts are in {account} after all, give --currency {account}"
            self.problems.append(ImportProblem(None, "currency", problem, fix))


def sum_cells(several: Sequence[Decimal | BadCell | None]) -> Decimal | BadCell | None:
    """Returns the sum of the cells that are not empty; None if all are."""
    result: Decimal | None = None
    for value in several:
        if isinstance(value, BadCell):
            return value
        if value is not None:
            result = (result or ZERO) + value
    return result
