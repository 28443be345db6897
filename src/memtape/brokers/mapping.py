"""The meaning of columns: as stated by the caller, else as saved by an earlier import of the same columns, else guessed by name.

A guess tests the cells too, because names mislead: MetaTrader's `Direction` contains "in" and "out", Alpaca's `type` contains
"fill". A mapping is plain text, field -> column; several columns are joined by +, and =text is a constant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from memtape.brokers.cells import EMPTY_WORDS, is_time_of_day
from memtape.brokers.files import CellTable, clean_name
from memtape.brokers.formats import FILE_KINDS
from memtape.brokers.headings import (
    ADDED_COST_NAMES,
    FIELDS_BY_KIND,
    MAPPING_SETTINGS,
    FieldNames,
    cell_currency,
    is_money,
    plain_name,
)
from memtape.brokers.importer import ImportOptions
from memtape.brokers.kinds import DECISION_NAMES, choose_kind, kinds_of, missing_fields, refuses
from memtape.brokers.sides import SideWords, closes_position
from memtape.core.values import Currency, Symbol, read
from memtape.errors import FieldProblem, Invalid

SAMPLE_ROWS = 200
NUMBER_FIELDS = frozenset({
    "entry_price", "exit_price", "price", "qty", "fees", "multiplier", "rate", "pnl", "net_pnl", "entry_fee", "exit_fee",
    "funding", "leverage", "stop", "target", "buy_qty", "buy_price", "sell_qty", "sell_price", "confidence",
    "atr_d1", "atr_h1", "atr_m5", "value", "balance", "equity", "flow", "deposit", "withdrawal", "cash", "mark", "cost",
    "unrealized", "probability", "pnl_r", "outcome_r", "outcome_price",
})  # fmt: skip
SHARE_FIELDS = frozenset({"confidence", "probability"})
TIME_FIELDS = frozenset({"entry_at", "exit_at", "time", "expires_at", "outcome_at"})
# By kind, the fields whose unreadable cells are reported row by row. Of other kinds a column that cannot be read is left out.
REQUIRED_FIELDS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        ("trades", "fills"),
        frozenset({"entry_at", "exit_at", "time", "entry_price", "exit_price", "price", "qty", "side", "symbol"}),
    ),
    "decisions": frozenset({"time", "symbol"}),
    "equity": frozenset({"time", "equity"}),
    "positions": frozenset({"time", "symbol", "qty"}),
}
MAX_ACTION_CHARS = 40
VAGUE_NAMES = frozenset({"entry", "exit", "opened", "closed", "type", "ordertype", "position", "transaction", "action", "order",
                         "open", "close", "gross", "net", "contracts"})
_LOOKS_NUMERIC = re.compile(
    r"[\s(+\-−$€£¥₿₹]*(?:[A-Za-z]{2,6} )?[\d.,'\s\u00a0\u202f/]*\d[\d.,'\s]*(?:[eE][+-]?\d+)?\s*[%)xA-Z€$£-]{0,7}"
)
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{2,4}$")


@dataclass(slots=True)
class ColumnMapping:
    """The fields of one file and their columns."""

    kind: str
    columns: dict[str, tuple[int, ...]]
    constants: dict[str, str]
    settings: dict[str, str]
    by: str
    notes: list[str] = field(default_factory=list)

    def __contains__(self, name: str) -> bool:
        return name in self.columns or name in self.constants

    def spelled(self, header: Sequence[str]) -> dict[str, str]:
        """Returns the mapping as text, in the form of the option `--map`."""
        columns = {name: "+".join(header[at] for at in several) for name, several in self.columns.items()}
        return {"kind": self.kind, **columns, **{n: f"={text}" for n, text in self.constants.items()}, **self.settings}

    def cells(self, table: CellTable, name: str, glue: str = " ") -> list[str]:
        """Returns the texts of one field; empty texts if the file does not have it."""
        if name in self.constants:
            return [self.constants[name]] * len(table.rows)
        several = self.columns.get(name, ())
        if len(several) == 1:
            return table.column(several[0])
        if not several:
            return [""] * len(table.rows)
        return [glue.join(filter(None, parts)) for parts in zip(*(table.column(at) for at in several), strict=True)]


def choose_mapping(table: CellTable, options: ImportOptions) -> ColumnMapping:
    """Returns the mapping of a file. Raises Invalid with the missing field and the option that gives it."""
    stated = dict(options.mapping)
    if options.symbol:
        stated["symbol"] = f"={read(Symbol, options.symbol, at='symbol')}"
    if options.currency:
        stated["currency"] = f"={read(Currency, options.currency, at='currency')}"
    if options.zone:
        stated["zone"] = options.zone
    saved = options.saved(table.header)
    by = "given" if options.mapping else "guessed"
    if saved:
        by, stated = "saved", {**_money_as_value(saved), **stated}
    given = _stated_mapping(table.header, stated)
    wanted = _wanted_kinds(given, options.kind)
    missing: dict[str, list[str]] = {}
    complete: dict[str, ColumnMapping] = {}
    for kind in wanted:
        mapping = complete[kind] = _complete_mapping(table, kind, given, guess=not saved)
        mapping.by = by
        missing[kind] = missing_fields(kind, mapping)
    found = _kind_of_file(table, complete, missing)
    if found is not None:
        del complete[found].settings["kind"]
        return complete[found]
    # Whether the rows of such a file are closed trades or executions, only the caller knows: both are named, the nearest first.
    likely = sorted((kind for kind in wanted if kind in ("trades", "fills")), key=lambda kind: len(missing[kind]))
    likely = likely or [min(wanted, key=lambda kind: len(missing[kind]))]
    names = ", ".join(table.header)
    shown = names if len(names) <= 300 else names[:297] + "..."
    lacking = missing[likely[0]]
    hint = f"Give the column, like --map {lacking[0].split(' ')[0]}=COLUMN; the columns are: {shown}"
    if lacking[0] == "symbol":
        hint = f"Give it with --symbol or --map symbol=COLUMN; the columns are: {shown}"
    if len(wanted) == len(FILE_KINDS):
        hint += ". If the file holds no trades, say what it holds: --kind decisions, --kind equity or --kind positions"
    ways = ", or for ".join(f"{', '.join(missing[kind])} ({'closed trades' if kind == 'trades' else kind})" for kind in likely)
    raise Invalid("map", f"no column was found for {ways}", hint)


def _wanted_kinds(given: ColumnMapping, stated: str | None) -> list[str]:
    """Returns the kinds that a file may be read as: those that the caller names, else that of a mapping, else all."""
    own = given.settings.get("kind")
    if stated is None:
        return [own] if own is not None else list(FILE_KINDS)
    kinds = kinds_of(stated)
    if own is not None and own not in kinds:
        # The mapping of an earlier import read the file as something else.
        given.settings.pop("kind")
    return [own] if own in kinds and own is not None else list(kinds)


def _kind_of_file(table: CellTable, complete: Mapping[str, ColumnMapping], missing: Mapping[str, list[str]]) -> str | None:
    """Returns the kind of a file; None if no kind fits."""
    fitting = {kind: mapping for kind, mapping in complete.items() if not missing[kind]}
    # Closed trades without any exit price come last: a file that can be read otherwise is no file of closed trades.
    if not fitting:
        return "trades" if missing.get("trades") == ["exit_price"] else None
    if len(complete) <= len(kinds_of("trades")):
        return next(iter(fitting))
    return choose_kind(
        fitting,
        decision_names="decisions" in fitting and _is_named_decision(table, fitting),
        refusals_with_reason="decisions" in fitting and _gives_reasons_for_refusals(table, fitting["decisions"]),
        has_symbols="symbol" in _complete_mapping(table, "fills", ColumnMapping("", {}, {}, {}, "given"), guess=True),
        buys_and_sells="fills" in fitting and "side" in fitting["fills"] and _trades_words(table, fitting["fills"]),
    )


def _is_named_decision(table: CellTable, fitting: Mapping[str, ColumnMapping]) -> bool:
    """Returns True if the column that says what to do is named like a decision, and no other one says what was done."""
    places = {at for name in ("action", "side") for at in fitting["decisions"].columns.get(name, ())}
    named = {at for at in places if plain_name(table.header[at]) in DECISION_NAMES}
    done = set(fitting["fills"].columns.get("side", ())) if "fills" in fitting else set()
    return bool(named) and done <= named


def _gives_reasons_for_refusals(table: CellTable, mapping: ColumnMapping) -> bool:
    """Returns True if rows that decide against a trade have a reason: an account has no row of its own for what it did not do."""
    words = mapping.cells(table, "action" if "action" in mapping else "side")
    return any(reason and refuses(word) for word, reason in zip(words, mapping.cells(table, "reason"), strict=True))


def _trades_words(table: CellTable, mapping: ColumnMapping) -> bool:
    """Returns True if a column of sides has words of orders, like buy."""
    words = {cell.lower() for cell in mapping.cells(table, "side")}
    return bool(words - {"long", "short", "both", "net", "l", "s", ""})


def _money_as_value(saved: Mapping[str, str]) -> dict[str, str]:
    """Returns a saved mapping in which an amount of money is not a quantity, as mappings of earlier versions had it."""
    if "value" not in saved and is_money(saved.get("qty", "")):
        return {("value" if name == "qty" else name): column for name, column in saved.items()}
    return dict(saved)


# ---- stated by the caller -------------------------------------------------------------------------------------------------


def _stated_mapping(header: Sequence[str], stated: Mapping[str, str]) -> ColumnMapping:
    given = ColumnMapping("", {}, {}, {}, "given")
    fields = {name for names in FIELDS_BY_KIND.values() for name in names}
    problems: list[FieldProblem] = []
    for name, text in stated.items():
        if name == "zone":
            given.settings[name] = text
        elif name in MAPPING_SETTINGS:
            if text not in MAPPING_SETTINGS[name]:
                choices = f"Use one of {', '.join(MAPPING_SETTINGS[name])}"
                problems.append(FieldProblem(f"map {name}", f"'{clean_name(text)}' is not known", choices))
            given.settings[name] = text
        elif name not in fields:
            close = get_close_matches(name, sorted(fields), n=1)
            meant = f"Did you mean {close[0]}? " if close else ""
            listed = f"{meant}Fields are: {', '.join(sorted(fields))}"
            problems.append(FieldProblem("map", f"'{clean_name(name)}' is not a field", listed))
        elif text.startswith("=") and text not in header:
            given.constants[name] = clean_name(text[1:])
        else:
            try:
                given.columns[name] = column_places(header, name, text)
            except Invalid as wrong:
                problems += wrong.errors
    if problems:
        raise Invalid(*problems[0], *problems[1:])
    return given


def column_places(header: Sequence[str], field_: str, text: str) -> tuple[int, ...]:
    """Returns the places of the columns that a text names. Raises Invalid if there is no such column."""
    if not text:
        return ()  # leave the field out
    plain = [plain_name(name) for name in header]
    found: list[int] = []
    for part in _split_names(header, text):
        if part in header:
            found.append(header.index(part))
        elif plain_name(part) in plain:
            found.append(plain.index(plain_name(part)))
        else:
            close = get_close_matches(part, header, n=1)
            meant = f"Did you mean '{close[0]}'? " if close else ""
            names = ", ".join(header)[:300]
            raise Invalid(f"map {field_}", f"there is no column '{clean_name(part)}'", f"{meant}The columns are: {names}")
    return tuple(found)


def _split_names(header: Sequence[str], text: str) -> list[str]:
    """Splits names joined by +. Where a name contains a + itself, the longest name that is a column counts."""
    words = text.split("+")
    parts: list[str] = []
    while words:
        size = next((n for n in range(len(words), 0, -1) if "+".join(words[:n]).strip() in header), 1)
        parts.append("+".join(words[:size]).strip())
        words = words[size:]
    return parts


# ---- the guess -----------------------------------------------------------------------------------------------------


def _complete_mapping(table: CellTable, kind: str, given: ColumnMapping, *, guess: bool) -> ColumnMapping:
    """Returns the stated mapping, completed by what names and cells suggest."""
    names: FieldNames = FIELDS_BY_KIND[kind]
    foreign = [name for name in (*given.columns, *given.constants) if name not in names]
    if foreign and given.settings.get("kind") == kind:
        raise Invalid("map", f"'{foreign[0]}' is not a field of {kind}", f"Fields are: {', '.join(sorted(names))}")
    columns = {name: places for name, places in given.columns.items() if name in names}
    mapping = ColumnMapping(kind, columns, dict(given.constants), {**given.settings, "kind": kind}, "guessed")
    if guess and not foreign:
        _guess_columns(table, names, mapping)
    mapping.columns = {name: places for name, places in mapping.columns.items() if places}
    return mapping


def _guess_columns(table: CellTable, names: FieldNames, mapping: ColumnMapping) -> None:
    plain = [plain_name(name) for name in table.header]
    places: dict[str, list[int]] = {}
    for place, own in enumerate(plain):
        places.setdefault(own, []).append(place)
    taken = {at for several in mapping.columns.values() for at in several}

    def suits(name: str, at: int) -> bool:
        cells = [cell for cell in table.column(at)[:SAMPLE_ROWS] if cell.lower() not in EMPTY_WORDS]
        if "%" in table.header[at] and name in NUMBER_FIELDS and name not in SHARE_FIELDS:
            return False  # a percentage is no amount
        if name == "side":
            words = SideWords(table.column(at), held=mapping.kind != "fills", name=plain[at])
            return words.has_side and words.share_known >= 0.5
        return not cells or _CELL_TESTS.get(name, _anything)(cells, plain[at])

    for name, spellings in names.items():
        if name in mapping:
            continue  # stated already, perhaps as left out
        named = [at for spelling in spellings for at in places.get(plain_name(spelling), ())]
        # A quantity with a currency in its name is an amount of money.
        if name == "value" and mapping.kind == "positions":
            pass  # the value of a position is a figure beside its quantity
        elif name == "qty":
            named = [at for at in named if not is_money(table.header[at]) and not _cells_are_money(table, at, mapping)]
        elif name == "value":
            quantities = {plain_name(spelling) for spelling in names["qty"]}
            sizes = [at for at, own in enumerate(plain) if own in quantities]
            named += [at for at in sizes if is_money(table.header[at]) or _cells_are_money(table, at, mapping)]
        # An empty column is used only if there is no other.
        named.sort(key=lambda at: not any(table.column(at)))
        named = [at for at in named if at not in taken]
        at = next((at for at in named if suits(name, at)), None)
        # Unreadable cells of a required field are reported row by row.
        if at is None and name in REQUIRED_FIELDS[mapping.kind]:
            at = next((at for at in named if plain[at] not in VAGUE_NAMES), None)
        if at is not None:
            mapping.columns[name] = (at,)
            taken.add(at)
    # The total is used instead of its parts.
    if "fees" in mapping:
        mapping.columns = {name: places for name, places in mapping.columns.items() if name not in ("entry_fee", "exit_fee")}
    # With a quantity, an amount of money says nothing new; the value of a position shows whether it is held at all, that of a
    # fill whether its price contains the multiplier.
    says_more = mapping.kind == "positions" or (mapping.kind == "fills" and "multiplier" in mapping)
    if ("qty" in mapping and not says_more) or {"buy_qty", "sell_qty"} <= mapping.columns.keys():
        mapping.columns.pop("value", None)
    _join_date_columns(table, names, mapping)
    _add_cost_columns(plain, mapping, taken)


def _cells_are_money(table: CellTable, at: int, mapping: ColumnMapping) -> bool:
    """Returns True if all sizes name a currency, like 6520 USDT; of USDJPY, 10000 USD is a quantity."""
    cells = [cell for cell in table.column(at)[:SAMPLE_ROWS] if cell.lower() not in EMPTY_WORDS]
    units = {cell_currency(cell) for cell in cells}
    if not units or None in units:
        return False
    symbols = [cell.upper() for cell in mapping.cells(table, "symbol")[:SAMPLE_ROWS]]
    return not any(symbol.startswith(str(unit)) for symbol in symbols for unit in units)


def _anything(cells: Sequence[str], name: str) -> bool:
    return True


def _mostly(test: Callable[[str], object]) -> Callable[[Sequence[str], str], bool]:
    return lambda cells, name: 2 * sum(1 for cell in cells if test(cell)) >= len(cells)


def _is_number(cell: str) -> bool:
    return len(cell) <= 60 and _LOOKS_NUMERIC.fullmatch(cell) is not None and not _DATE.match(cell)


def _is_time(cell: str) -> bool:
    return sum(c.isdigit() for c in cell) >= 4 or is_time_of_day(cell)


def _identifies_rows(cells: Sequence[str], name: str) -> bool:
    """Returns True if cells can be ids: `position` and `trade` are ids only if most values have digits and occur once."""
    numbered = sum(any(c.isdigit() for c in cell) for cell in cells)
    return name not in ("position", "trade") or (2 * len(set(cells)) > len(cells) and 2 * numbered > len(cells))


def _names_symbols(cells: Sequence[str], name: str) -> bool:
    # Bybit's "Contracts" are symbols, those of others are quantities.
    return _mostly(lambda cell: any(c.isalpha() for c in cell) or (name != "contracts" and cell.isdigit()))(cells, name)


def _is_flag(cell: str) -> bool:
    return cell.lower() in ("true", "false", "0", "1", "yes", "no")


_CELL_TESTS: dict[str, Callable[[Sequence[str], str], bool]] = {
    # Confidence in words is left out with a note.
    **dict.fromkeys(NUMBER_FIELDS - {"confidence"}, _mostly(_is_number)),
    **dict.fromkeys(TIME_FIELDS, _mostly(_is_time)),
    **dict.fromkeys(("is_short", "is_open", "is_buyer", "liq"), _mostly(_is_flag)),
    "leg": _mostly(lambda cell: cell.lower() in ("long", "short", "both", "net")),
    "effect": lambda cells, name: all(closes_position(cell) is not None for cell in cells),
    "symbol": _names_symbols,
    "id": _identifies_rows,
    # A word, not a sentence: a column of texts may have the same name.
    "action": _mostly(lambda cell: len(cell) <= MAX_ACTION_CHARS and any(c.isalpha() for c in cell)),
    "frame": _mostly(lambda cell: len(cell) <= MAX_ACTION_CHARS),
    # MetaTrader's `reason` is a number.
    "reason": _mostly(lambda cell: any(c.isalpha() for c in cell)),
    "status": _mostly(lambda cell: any(c.isalpha() for c in cell)),
    "regime": _mostly(lambda cell: not _is_number(cell)),
    "volatility": _mostly(lambda cell: not _is_number(cell)),
    "session": _mostly(lambda cell: not _is_number(cell)),
    "tags": _mostly(lambda cell: not _is_number(cell)),
}


def _join_date_columns(table: CellTable, names: FieldNames, mapping: ColumnMapping) -> None:
    """Join the date column to a time column that has no date."""
    plain = [plain_name(name) for name in table.header]
    for name in TIME_FIELDS & mapping.columns.keys():
        if len(mapping.columns[name]) != 1:
            continue
        at = mapping.columns[name][0]
        cells = list(filter(None, table.column(at)[:SAMPLE_ROWS]))
        if not cells or not all(map(is_time_of_day, cells)):
            continue
        days = [n for n, own in enumerate(plain) if n != at and own in (*names[name], "date", "day", "tradedate", "datum")]
        days = [n for n in days if any(cell and not is_time_of_day(cell) for cell in table.column(n)[:SAMPLE_ROWS])]
        if days:
            own = [n for n in days if plain[n][:4] == plain[at][:4]]
            mapping.columns[name] = ((own or days)[0], at)


def _add_cost_columns(plain: Sequence[str], mapping: ColumnMapping, taken: set[int]) -> None:
    """Add commission, fee and taxes where a file has them side by side: they are different costs."""
    places = mapping.columns.get("fees", ())
    if len(places) == 1 and plain[places[0]] in ADDED_COST_NAMES:
        # The swap of a closed trade is its funding; a fill has no funding, so it is one of its costs.
        names = ADDED_COST_NAMES | {"swap"} if mapping.kind == "fills" else ADDED_COST_NAMES
        more = tuple(n for n, own in enumerate(plain) if own in names and n not in taken)
        mapping.columns["fees"] = places + more
