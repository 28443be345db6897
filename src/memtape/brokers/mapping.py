"""Which column is what: what the caller says, else what an earlier import of the same columns kept, else a guess by name.

A guess looks at the cells too, because names mislead: MetaTrader's `Direction` holds in and out, Alpaca's `type` holds
fill. A mapping is plain text both ways, field -> column; several columns are joined by +, and =text stands for a constant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from memtape.brokers.cells import EMPTY, is_time_of_day
from memtape.brokers.files import CellTable, clean_name
from memtape.brokers.headings import ADDED, KINDS, SETTINGS, Names, plain_name
from memtape.brokers.importer import ImportOptions
from memtape.brokers.sides import Words
from memtape.core.values import Symbol, read
from memtape.errors import Invalid

SAMPLE = 200
NUMBERS = frozenset({
    "entry_price", "exit_price", "price", "qty", "fees", "multiplier", "rate", "pnl", "net_pnl", "entry_fee", "exit_fee",
    "funding", "leverage", "stop", "target", "buy_qty", "buy_price", "sell_qty", "sell_price", "confidence",
    "atr_d1", "atr_h1", "atr_m5",
})  # fmt: skip
TIMES = frozenset({"entry_at", "exit_at", "time"})
NEEDED = TIMES | {"entry_price", "exit_price", "price", "qty", "side", "symbol"}
VAGUE = frozenset({"entry", "exit", "opened", "closed", "type", "ordertype", "position", "transaction", "action", "order"})
_LOOKS_NUMERIC = re.compile(
    r"[\s(+\-−$€£¥₿₹]*(?:[A-Za-z]{2,6} )?[\d.,'\s\u00a0\u202f/]*\d[\d.,'\s]*(?:[eE][+-]?\d+)?\s*[%)xA-Z€$£-]{0,7}"
)
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{2,4}$")


@dataclass(slots=True)
class Chosen:
    """What the columns of one file are."""

    kind: str
    columns: dict[str, tuple[int, ...]]
    constants: dict[str, str]
    settings: dict[str, str]
    by: str
    notes: list[str] = field(default_factory=list)

    def __contains__(self, name: str) -> bool:
        return name in self.columns or name in self.constants

    def spelled(self, header: Sequence[str]) -> dict[str, str]:
        """As text, the way it can be said again."""
        columns = {name: "+".join(header[at] for at in several) for name, several in self.columns.items()}
        return {"kind": self.kind, **columns, **{n: f"={text}" for n, text in self.constants.items()}, **self.settings}

    def cells(self, table: CellTable, name: str, glue: str = " ") -> list[str]:
        """The texts of one field, row by row; nothing if the file does not have it."""
        if name in self.constants:
            return [self.constants[name]] * len(table.rows)
        several = self.columns.get(name, ())
        if len(several) == 1:
            return table.column(several[0])
        if not several:
            return [""] * len(table.rows)
        return [glue.join(filter(None, parts)) for parts in zip(*(table.column(at) for at in several), strict=True)]


def choose(table: CellTable, wishes: ImportOptions) -> Chosen:
    """The mapping of a file; `Invalid` names what is missing and how to say it."""
    said = dict(wishes.mapping)
    if wishes.symbol:
        said["symbol"] = f"={read(Symbol, wishes.symbol, at='symbol')}"
    if wishes.zone:
        said["zone"] = wishes.zone
    saved = wishes.saved(table.header)
    by = "given" if wishes.mapping else "guessed"
    if saved:
        by, said = "saved", {**saved, **said}
    given = _given(table.header, said)
    wanted = [given.settings["kind"]] if "kind" in given.settings else list(KINDS)
    missing: dict[str, list[str]] = {}
    for kind in wanted:
        chosen = _complete(table, kind, given, guess=not saved)
        chosen.by = by
        missing[kind] = _missing(chosen)
        if not missing[kind]:
            del chosen.settings["kind"]
            return chosen
    nearest = min(wanted, key=lambda kind: len(missing[kind]))
    names = ", ".join(table.header)
    shown = names if len(names) <= 300 else names[:297] + "..."
    lacking = missing[nearest]
    hint = f"Say which column it is, like --map {lacking[0].split(' ')[0]}=COLUMN; the columns are: {shown}"
    if lacking[0] == "symbol":
        hint = f"Name it with --symbol, or say --map symbol=COLUMN; the columns are: {shown}"
    raise Invalid("map", f"no column was found for {', '.join(lacking)} (read as {nearest})", hint)


def _missing(chosen: Chosen) -> list[str]:
    """The fields without which there is no trade, or no fill."""
    lacking = [name for name in ("symbol",) if name not in chosen]
    if chosen.kind == "trades":
        lacking += [name for name in ("entry_at", "exit_at", "entry_price", "exit_price") if name not in chosen]
        if not any(name in chosen for name in ("qty", "pnl", "net_pnl")):
            lacking.append("qty or pnl")
        if not any(name in chosen for name in ("side", "is_short", "qty", "pnl", "net_pnl")):
            lacking.append("side")
        return lacking
    if "time" not in chosen:
        lacking.append("time")
    if {"buy_qty", "buy_price", "sell_qty", "sell_price"} <= chosen.columns.keys():
        return lacking
    return lacking + [name for name in ("price", "qty") if name not in chosen]


# ---- what was said -------------------------------------------------------------------------------------------------


def _given(header: Sequence[str], said: Mapping[str, str]) -> Chosen:
    given = Chosen("", {}, {}, {}, "given")
    fields = {name for names in KINDS.values() for name in names}
    for name, text in said.items():
        if name == "zone":
            given.settings[name] = text
        elif name in SETTINGS:
            if text not in SETTINGS[name]:
                raise Invalid(f"map {name}", f"'{clean_name(text)}' is not known", f"Use one of {', '.join(SETTINGS[name])}")
            given.settings[name] = text
        elif name not in fields:
            close = get_close_matches(name, sorted(fields), n=1)
            meant = f"Did you mean {close[0]}? " if close else ""
            raise Invalid("map", f"'{clean_name(name)}' is not a field", f"{meant}Fields are: {', '.join(sorted(fields))}")
        elif text.startswith("=") and text not in header:
            given.constants[name] = clean_name(text[1:])
        else:
            given.columns[name] = _places(header, name, text)
    return given


def _places(header: Sequence[str], field_: str, text: str) -> tuple[int, ...]:
    if not text:
        return ()  # leave the field out
    plain = [plain_name(name) for name in header]
    found: list[int] = []
    for part in _parts(header, text):
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


def _parts(header: Sequence[str], text: str) -> list[str]:
    """The names joined by +, also where a name has a + of its own: the longest that is a column counts."""
    words = text.split("+")
    parts: list[str] = []
    while words:
        size = next((n for n in range(len(words), 0, -1) if "+".join(words[:n]).strip() in header), 1)
        parts.append("+".join(words[:size]).strip())
        words = words[size:]
    return parts


# ---- the guess -----------------------------------------------------------------------------------------------------


def _complete(table: CellTable, kind: str, given: Chosen, *, guess: bool) -> Chosen:
    """What was said, and for the rest what the names and cells suggest."""
    names: Names = KINDS[kind]
    foreign = [name for name in (*given.columns, *given.constants) if name not in names]
    if foreign and given.settings.get("kind") == kind:
        raise Invalid("map", f"'{foreign[0]}' is not a field of {kind}", f"Fields are: {', '.join(sorted(names))}")
    columns = {name: places for name, places in given.columns.items() if name in names}
    chosen = Chosen(kind, columns, dict(given.constants), {**given.settings, "kind": kind}, "guessed")
    if guess and not foreign:
        _guess(table, names, chosen)
    chosen.columns = {name: places for name, places in chosen.columns.items() if places}
    return chosen


def _guess(table: CellTable, names: Names, chosen: Chosen) -> None:
    plain = [plain_name(name) for name in table.header]
    places = {own: at for at, own in reversed(list(enumerate(plain)))}
    taken = {at for places in chosen.columns.values() for at in places}

    def suits(name: str, at: int) -> bool:
        cells = [cell for cell in table.column(at)[:SAMPLE] if cell.lower() not in EMPTY]
        if name == "side":
            words = Words(table.column(at), held=chosen.kind == "trades", name=plain[at])
            return words.has_side and words.share_known >= 0.5
        return not cells or _SUITS.get(name, _anything)(cells, plain[at])

    for name, spellings in names.items():
        if name in chosen:
            continue  # said already, perhaps that it is to be left out
        named = [places[own] for spelling in spellings if (own := plain_name(spelling)) in places]
        named.sort(key=lambda at: not any(table.column(at)))  # an empty column only if there is no other
        named = [at for at in named if at not in taken]
        at = next((at for at in named if suits(name, at)), None)
        if at is None and name in NEEDED:  # cells that nobody can read are told row by row, not taken for another column's
            at = next((at for at in named if plain[at] not in VAGUE), None)
        if at is not None:
            chosen.columns[name] = (at,)
            taken.add(at)
    if "fees" in chosen:  # the whole beside its parts
        chosen.columns = {name: places for name, places in chosen.columns.items() if name not in ("entry_fee", "exit_fee")}
    _join_days(table, names, chosen)
    _add_costs(plain, chosen, taken)


def _anything(cells: Sequence[str], name: str) -> bool:
    return True


def _mostly(test: Callable[[str], object]) -> Callable[[Sequence[str], str], bool]:
    return lambda cells, name: 2 * sum(1 for cell in cells if test(cell)) >= len(cells)


def _is_number(cell: str) -> bool:
    return len(cell) <= 60 and _LOOKS_NUMERIC.fullmatch(cell) is not None and not _DATE.match(cell)


def _is_time(cell: str) -> bool:
    return sum(c.isdigit() for c in cell) >= 4 or is_time_of_day(cell)


def _names_rows(cells: Sequence[str], name: str) -> bool:
    """`position` and `trade` are ids only where hardly one occurs twice."""
    return name not in ("position", "trade") or 2 * len(set(cells)) > len(cells)


def _is_flag(cell: str) -> bool:
    return cell.lower() in ("true", "false", "0", "1", "yes", "no")


_SUITS: dict[str, Callable[[Sequence[str], str], bool]] = {
    **dict.fromkeys(NUMBERS, _mostly(_is_number)),
    **dict.fromkeys(TIMES, _mostly(_is_time)),
    **dict.fromkeys(("is_short", "is_open", "is_buyer", "liq"), _mostly(_is_flag)),
    "leg": _mostly(lambda cell: cell.lower() in ("long", "short", "both", "net")),
    "symbol": _mostly(lambda cell: any(c.isalpha() for c in cell) or cell.isdigit()),
    "id": _names_rows,
    "status": _mostly(lambda cell: any(c.isalpha() for c in cell)),
    "regime": _mostly(lambda cell: not _is_number(cell)),
    "volatility": _mostly(lambda cell: not _is_number(cell)),
    "session": _mostly(lambda cell: not _is_number(cell)),
    "tags": _mostly(lambda cell: not _is_number(cell)),
}


def _join_days(table: CellTable, names: Names, chosen: Chosen) -> None:
    """Where the day has a column of its own, the time needs both."""
    plain = [plain_name(name) for name in table.header]
    for name in TIMES & chosen.columns.keys():
        if len(chosen.columns[name]) != 1:
            continue
        at = chosen.columns[name][0]
        cells = list(filter(None, table.column(at)[:SAMPLE]))
        if not cells or not all(map(is_time_of_day, cells)):
            continue
        days = [n for n, own in enumerate(plain) if n != at and own in (*names[name], "date", "day", "tradedate")]
        days = [n for n in days if any(cell and not is_time_of_day(cell) for cell in table.column(n)[:SAMPLE])]
        if days:
            own = [n for n in days if plain[n][:4] == plain[at][:4]]
            chosen.columns[name] = ((own or days)[0], at)


def _add_costs(plain: Sequence[str], chosen: Chosen, taken: set[int]) -> None:
    """Commission, fee and taxes side by side are three costs, not three names of one."""
    places = chosen.columns.get("fees", ())
    if len(places) == 1 and plain[places[0]] in ADDED:
        more = tuple(n for n, own in enumerate(plain) if own in ADDED and n not in taken)
        chosen.columns["fees"] = places + more
