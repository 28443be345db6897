"""An agent's episodes as columns: one array per field, so that a question is arithmetic over arrays.

Rows come as the store gives them and stay in the order in which they came; each version of an episode is a row. What is
missing is marked, never NaN. Labels are numbered as they appear (-1: unknown), and rows are listed by segment, that is by
symbol and strategy, so that a filter reads only what passes it. A row that was dropped is known at no time; the arrays
are closed up once many are.

>>> columns = Columns()
>>> columns.n, columns.mask(0, None, None).tolist()
(0, [])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memtape.core.memory.episodes import EPISODE_FIELDS, NOT_TAUGHT
from memtape.core.memory.situation import NUMBERS

Row = Sequence[Any]  # in the order of EPISODE_FIELDS, times in microseconds since 1970
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rows = slice | NDArray[np.intp]

OPEN: Final = 2**62  # known_to of what is still believed, known_from of what was dropped
R_SOURCES: Final = {None: 0, "stop": 1, "atr_proxy": 2, "stated": 3}
UNKNOWN, NOT_POSITIVE, POSITIVE = 0, 1, 2  # what a number can be
NO_LOG: Final = -1e6  # the logarithm of what is not positive: nothing is near it
LEVELS: Final = tuple(name for name, _, _ in NUMBERS)
FIRST_ROOM: Final = 256
CLOSED_UP_FROM: Final = 4096  # dropped rows

_AT: Final = {name: at for at, name in enumerate(EPISODE_FIELDS)}
_TYPES: Final[dict[str, Any]] = {
    "known_from": np.int64, "known_to": np.int64, "entry_us": np.int64, "exit_us": np.int64,
    "symbol_code": np.int16, "strategy_code": np.int16, "regime_code": np.int16, "volatility_code": np.int16,
    "session_code": np.int16, "side_code": np.int8, "has_r": np.bool_, "r": np.float64, "source_r": np.int8,
    "claimed": np.bool_, "teaches": np.bool_, "shadow": np.bool_, "aside": np.bool_, "tier": np.int8,
    "source_code": np.int32, "conf": np.float64, "labels_code": np.intp,
    **{f"{name}_{part}": dtype for name in LEVELS for part, dtype in (("state", np.int8), ("level", np.float64))},
}  # fmt: skip


class Names(list[str]):
    """Labels, each numbered by its place; -1 stands for none."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: dict[str | None, int] = {None: -1}

    def coded(self, labels: Iterable[str | None]) -> list[int]:
        """The numbers of labels; a new one gets the next."""
        return [self.codes[label] if label in self.codes else self._new(label) for label in labels]

    def _new(self, label: str | None) -> int:
        assert label is not None
        self.codes[label] = len(self)
        self.append(label)
        return len(self) - 1


class Columns:
    """Every version of every episode of one agent. The first `n` entries of each array are rows."""

    known_from: Ints
    known_to: Ints
    entry_us: Ints
    exit_us: Ints
    symbol_code: NDArray[np.int16]
    strategy_code: NDArray[np.int16]
    regime_code: NDArray[np.int16]
    volatility_code: NDArray[np.int16]
    session_code: NDArray[np.int16]
    labels_code: NDArray[np.intp]  # regime, volatility and session together
    side_code: NDArray[np.int8]  # 0 long, 1 short
    has_r: Bools
    r: Floats
    source_r: NDArray[np.int8]  # 0 none, 1 stop, 2 atr_proxy, 3 stated
    claimed: Bools
    teaches: Bools
    shadow: Bools
    aside: Bools  # the owner keeps it out of statistics
    tier: NDArray[np.int8]
    source_code: NDArray[np.int32]
    conf: Floats  # the factor Conf, ½ to 1

    @property
    def nbytes(self) -> int:
        """The memory that the arrays take, in bytes; ids and names are counted by an average."""
        arrays = (value for value in vars(self).values() if isinstance(value, np.ndarray))
        return sum(array.nbytes for array in arrays) + 250 * len(self.ids)

    def __init__(self) -> None:
        self.n = 0
        self.dropped = 0
        self.ids: list[str] = []
        self.symbols, self.strategies, self.regimes = Names(), Names(), Names()
        self.volatilities, self.sessions, self.sources = Names(), Names(), Names()
        self.label_sets: dict[tuple[int, int, int], int] = {}
        self.kept: dict[tuple[object, ...], float] = {}  # what questions about now have in common, until the next change
        self._rows: dict[str, list[int]] = {}  # by id
        self._latest, self._revised = -OPEN, False  # the last moment at which anything came to be known; whether any ended
        self._segments: dict[tuple[int, int], list[NDArray[np.intp]]] = {}
        self._in_order = True  # exits, in the order of the rows
        self._by_exit, self._exits = np.zeros(0, np.intp), np.zeros(0, np.int64)  # where they are not
        self._room = 0
        self._grow(FIRST_ROOM)

    def state(self, name: str) -> NDArray[np.int8]:
        """Of a number: unknown, not positive, or positive."""
        found: NDArray[np.int8] = getattr(self, f"{name}_state")
        return found

    def level(self, name: str) -> Floats:
        """The logarithm of a number; of drawdown the number itself, which may be zero."""
        found: Floats = getattr(self, f"{name}_level")
        return found

    # --- writing --------------------------------------------------------------------------------------------------------

    def put(self, rows: Sequence[Row]) -> None:
        """Add rows; one with an id and a known_from that is here replaces it."""
        self.kept.clear()
        latest = {(row[0], row[1]): row for row in rows}
        for key in latest:
            if key[0] in self._rows:
                self._forget(at for at in self._rows[key[0]] if self.known_from[at] == key[1])
        if latest:
            self._append(list(latest.values()))
        self._close_up()

    def drop(self, id: str) -> None:
        """Forget every version of an episode."""
        self.kept.clear()
        self._forget(self._rows.get(id, []))
        self._close_up()

    def _forget(self, rows: Iterable[int]) -> None:
        for at in list(rows):
            self.known_from[at], self._revised = OPEN, True
            self._rows[self.ids[at]].remove(at)
            self.dropped += 1

    def _append(self, rows: list[Row]) -> None:
        start, stop = self.n, self.n + len(rows)
        if stop > self._room:
            self._grow(max(stop, 2 * self._room))
        for name, values in self._columns(rows).items():
            getattr(self, name)[start:stop] = values
        self.n = stop
        self.ids.extend(row[0] for row in rows)
        for at, row in enumerate(rows, start):
            self._rows.setdefault(row[0], []).append(at)
        self._index(start, stop)

    def _columns(self, rows: list[Row]) -> dict[str, Any]:
        of = dict(zip(EPISODE_FIELDS, zip(*rows, strict=True), strict=True))
        labels = [names.coded(of[field]) for names, field in (
            (self.regimes, "regime"), (self.volatilities, "volatility_regime"), (self.sessions, "session"))]  # fmt: skip
        sets = self.label_sets
        r, has_r = _numbers(of["pnl_r"])
        confidence, has_confidence = _numbers(of["confidence"])
        trade = np.array([kind == "trade" for kind in of["kind"]])
        aside = np.array([teach in NOT_TAUGHT for teach in of["teach"]])
        found: dict[str, Any] = {
            "known_from": of["known_from"], "known_to": [OPEN if to is None else to for to in of["known_to"]],
            "entry_us": of["entry_at"], "exit_us": of["exit_at"],
            "symbol_code": self.symbols.coded(of["symbol"]), "strategy_code": self.strategies.coded(of["strategy"]),
            "regime_code": labels[0], "volatility_code": labels[1], "session_code": labels[2],
            "labels_code": [sets.setdefault(codes, len(sets)) for codes in zip(*labels, strict=True)],
            "side_code": [side == "short" for side in of["side"]], "has_r": has_r, "r": r,
            "source_r": [R_SOURCES[source] for source in of["r_source"]], "claimed": of["claimed"],
            "teaches": trade & ~aside, "shadow": ~trade, "aside": aside, "tier": of["tier"],
            "source_code": self.sources.coded(of["source"]),
            "conf": 0.5 + 0.5 * np.clip(np.where(has_confidence, confidence, 0.5), 0.0, 1.0),
        }  # fmt: skip
        for name in LEVELS:
            found[f"{name}_state"], found[f"{name}_level"] = _level(name, of[name])
        return found

    def _grow(self, room: int) -> None:
        for name, dtype in _TYPES.items():
            grown = np.zeros(room, dtype)
            if self._room:
                grown[: self.n] = getattr(self, name)[: self.n]
            setattr(self, name, grown)
        self._room = room

    def _index(self, start: int, stop: int) -> None:
        """List new rows by segment, and by exit if they come in order."""
        symbol, strategy = self.symbol_code[start:stop], self.strategy_code[start:stop]
        pairs = symbol.astype(np.int64) * 2**16 + strategy
        for pair in np.unique(pairs):
            key = (int(pair) >> 16, int(pair) & 0xFFFF)
            self._segments.setdefault(key, []).append(np.flatnonzero(pairs == pair) + start)
        self._latest = max(self._latest, int(self.known_from[start:stop].max()), int(self.exit_us[start:stop].max()))
        self._revised = self._revised or bool((self.known_to[start:stop] != OPEN).any())
        self._in_order = self._in_order and bool((np.diff(self.exit_us[max(start - 1, 0) : stop]) >= 0).all())

    def _close_up(self) -> None:
        """Take dropped rows out of the arrays once there are many."""
        if self.dropped < CLOSED_UP_FROM or 4 * self.dropped < self.n:
            return
        kept = np.flatnonzero(self.known_from[: self.n] != OPEN)
        for name in _TYPES:
            getattr(self, name)[: len(kept)] = getattr(self, name)[kept]
        self.ids = [self.ids[at] for at in kept]
        self.n, self.dropped = len(kept), 0
        self._rows, self._segments, self._by_exit = {}, {}, np.zeros(0, np.intp)
        for at, id in enumerate(self.ids):
            self._rows.setdefault(id, []).append(at)
        self._latest, self._revised, self._in_order = -OPEN, False, True
        if kept.size:
            self._index(0, self.n)

    # --- reading --------------------------------------------------------------------------------------------------------

    def mask(self, as_of: int, symbol: str | None, strategy: str | None) -> Bools:
        """Which rows were believed at a moment, and pass the filters."""
        found = self.believed(slice(0, self.n), as_of)
        for wanted, names, codes in ((symbol, self.symbols, self.symbol_code), (strategy, self.strategies, self.strategy_code)):
            if wanted is not None:
                found &= codes[: self.n] == names.codes.get(wanted, -2)
        return found

    def believed(self, rows: Rows, as_of: int) -> Bools:
        """Which of these rows were believed at a moment."""
        if self.is_now(as_of):
            return np.ones(rows.stop - rows.start if isinstance(rows, slice) else len(rows), np.bool_)
        found: Bools = (self.exit_us[rows] <= as_of) & (self.known_from[rows] <= as_of) & (self.known_to[rows] > as_of)
        return found

    def is_now(self, as_of: int) -> bool:
        """Whether every row closed before this moment and is believed at it, as in most questions about now."""
        return as_of > self._latest and not self._revised

    def segment(self, symbol: str | None, strategy: str | None) -> Rows:
        """The rows that pass the filters, in order."""
        if symbol is None and strategy is None:
            return slice(0, self.n)
        codes = (None if symbol is None else self.symbols.codes.get(symbol, -2),
                 None if strategy is None else self.strategies.codes.get(strategy, -2))  # fmt: skip
        found = [part for key in self._segments if all(want in (None, has) for want, has in zip(codes, key, strict=True))
                 for part in self._joined(key)]  # fmt: skip
        return np.concatenate(found) if found else np.zeros(0, np.intp)

    def _joined(self, key: tuple[int, int]) -> list[NDArray[np.intp]]:
        if len(self._segments[key]) > 1:
            self._segments[key] = [np.concatenate(self._segments[key])]
        return self._segments[key]

    def newest(self, before: int) -> Iterator[NDArray[np.intp]]:
        """Rows that closed before a moment, the newest first, a stretch at a time."""
        if not self._in_order and len(self._by_exit) != self.n:
            self._by_exit = np.argsort(self.exit_us[: self.n], kind="stable")
            self._exits = self.exit_us[self._by_exit]
        exits = self.exit_us[: self.n] if self._in_order else self._exits
        stop = int(np.searchsorted(exits, before, side="left"))
        for end in range(stop, 0, -FIRST_ROOM):
            places = np.arange(end - 1, max(end - FIRST_ROOM, 0) - 1, -1)
            yield places if self._in_order else self._by_exit[places]

    def rows_of(self, id: str) -> list[int]:
        """The versions of an episode."""
        return self._rows.get(id, [])


def _numbers(values: Sequence[float | None]) -> tuple[Floats, Bools]:
    """Numbers, 0 where there is none, and where there is one."""
    found = np.array(values, dtype=np.float64)
    known = ~np.isnan(found)
    found[~known] = 0.0
    return found, known


def _level(name: str, values: Sequence[float | None]) -> tuple[NDArray[np.int8], Floats]:
    found, known = _numbers(values)
    state = np.where(known, np.where(found > 0, POSITIVE, NOT_POSITIVE), UNKNOWN).astype(np.int8)
    if name == "drawdown_pct":
        return state, found
    return state, np.where(state == POSITIVE, np.log(np.where(state == POSITIVE, found, 1.0)), NO_LOG)
