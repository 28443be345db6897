"""An agent's episodes as columns: one array per field, so that a question is arithmetic over arrays.

Each version of an episode is a row. Rows are in one fixed order, that of their exits (equal exits: by id, then by the time
at which the version became known), whatever order they arrive in. Sums of floats over rows therefore give the same bits in
every process, after every sequence of changes and on every database.

Missing values are marked, never NaN. Labels are numbered as they appear (-1: unknown), and rows are listed by segment, that
is by symbol and strategy, so that a filter reads only the rows that pass it. A dropped row counts as known at no time. The
arrays are compacted when many rows are dropped.

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

SECOND_US: Final = 1_000_000
SIGNAL_BITS: Final = 17  # of a signal, for its symbol and side
OPEN_END: Final = 2**62  # known_to of a version that is still believed, known_from of a dropped row
R_SOURCES: Final = {None: 0, "stop": 1, "atr_proxy": 2, "stated": 3}
UNKNOWN, NOT_POSITIVE, POSITIVE = 0, 1, 2  # the states of a number
NO_LOG: Final = -1e6  # stands for the logarithm of a number that is not positive: nothing is near it
LEVELS: Final = tuple(name for name, _, _ in NUMBERS)
FIRST_CAPACITY_ROWS: Final = 256
STRETCH_ROWS: Final = 256  # rows that `newest` yields at once
COMPACT_FROM_DROPPED_ROWS: Final = 4096
FEW_NEW_ROWS: Final = 16  # so few are compared with all others one by one

_EXIT_AT: Final = EPISODE_FIELDS.index("exit_at")
_TYPES: Final[dict[str, Any]] = {
    "known_from": np.int64, "known_to": np.int64, "entry_us": np.int64, "exit_us": np.int64,
    "symbol_code": np.int16, "strategy_code": np.int16, "regime_code": np.int16, "volatility_code": np.int16,
    "session_code": np.int16, "side_code": np.int8, "has_r": np.bool_, "r": np.float64, "source_r": np.int8,
    "has_money": np.bool_, "money": np.float64, "signal": np.int64, "shared": np.bool_,
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

    def copy(self) -> Names:
        """The same labels with the same numbers."""
        twin = Names()
        twin.extend(self)
        twin.codes |= self.codes
        return twin


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
    has_money: Bools
    money: Floats  # the result in the account currency
    signal: Ints  # one number for symbol, side and second of entry
    shared: Bools  # another row may have the same signal
    claimed: Bools
    teaches: Bools
    shadow: Bools
    aside: Bools  # the owner excludes it from statistics
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
        self.sigmas: dict[tuple[object, ...], float] = {}  # shared by questions about now; emptied by every change
        self._rows: dict[str, list[int]] = {}  # by id
        self._latest = -OPEN_END  # the last moment at which a row ended or became known
        self._revised = False  # whether any version ended or any row was dropped
        self._segments: dict[tuple[int, int], list[NDArray[np.intp]]] = {}
        self._capacity = 0
        self._grow(FIRST_CAPACITY_ROWS)

    def copy(self) -> Columns:
        """The same rows in arrays of their own: changes to the one do not show in the other."""
        twin = Columns.__new__(Columns)
        vars(twin).update({name: _copied(value) for name, value in vars(self).items()})
        return twin

    def state(self, name: str) -> NDArray[np.int8]:
        """The states of a number: unknown, not positive, or positive."""
        found: NDArray[np.int8] = getattr(self, f"{name}_state")
        return found

    def level(self, name: str) -> Floats:
        """The logarithms of a number; for drawdown the numbers themselves, which may be zero."""
        found: Floats = getattr(self, f"{name}_level")
        return found

    # --- writing --------------------------------------------------------------------------------------------------------

    def put(self, rows: Sequence[Row]) -> None:
        """Add rows. A row replaces the one with the same id and known_from."""
        self.sigmas.clear()
        latest = {(row[0], row[1]): row for row in rows}
        for key in latest:
            if key[0] in self._rows:
                self._forget(at for at in self._rows[key[0]] if self.known_from[at] == key[1])
        if latest:
            ordered = sorted(latest.values(), key=_exit_order)
            in_order = self._comes_last(ordered[0])
            self._append(ordered)
            if not in_order:
                # Rows that closed before the first of the new ones stay where they are: most late news concerns the end.
                start = int(np.searchsorted(self.exit_us[: self.n - len(ordered)], ordered[0][_EXIT_AT], side="left"))
                self._rearrange(start, self._live_rows_by_exit(start))
        self._compact()

    def drop(self, id: str) -> None:
        """Drop every version of an episode."""
        self.sigmas.clear()
        self._forget(self._rows.get(id, []))
        self._compact()

    def _forget(self, rows: Iterable[int]) -> None:
        for at in list(rows):
            self.known_from[at], self._revised = OPEN_END, True
            self._rows[self.ids[at]].remove(at)
            self.dropped += 1

    def _append(self, rows: list[Row]) -> None:
        start, stop = self.n, self.n + len(rows)
        if stop > self._capacity:
            self._grow(max(stop, 2 * self._capacity))
        for name, values in self._columns(rows).items():
            getattr(self, name)[start:stop] = values
        self.n = stop
        self.ids.extend(row[0] for row in rows)
        for at, row in enumerate(rows, start):
            self._rows.setdefault(row[0], []).append(at)
        self._mark_shared_signals(start, stop)
        self._index(start, stop)

    def _mark_shared_signals(self, start: int, stop: int) -> None:
        """Mark the rows that have the signal of another row, so that only these are ever grouped by signal."""
        signals, shared = self.signal[:stop], self.shared[:stop]
        if stop - start <= FEW_NEW_ROWS:
            for at in range(start, stop):
                same = signals == signals[at]
                shared |= same & (np.count_nonzero(same) > 1)
            return
        order = np.argsort(signals, kind="stable")
        same = np.diff(signals[order]) == 0
        shared[order[1:][same]] = True
        shared[order[:-1][same]] = True

    def _columns(self, rows: list[Row]) -> dict[str, Any]:
        of = dict(zip(EPISODE_FIELDS, zip(*rows, strict=True), strict=True))
        labels = [names.coded(of[field]) for names, field in (
            (self.regimes, "regime"), (self.volatilities, "volatility_regime"), (self.sessions, "session"))]  # fmt: skip
        sets = self.label_sets
        r, has_r = _numbers(of["pnl_r"])
        money, has_money = _numbers(of["pnl_usd"])
        symbol_codes = self.symbols.coded(of["symbol"])
        shorts = [side == "short" for side in of["side"]]
        confidence, has_confidence = _numbers(of["confidence"])
        trade = np.array([kind == "trade" for kind in of["kind"]])
        aside = np.array([teach in NOT_TAUGHT for teach in of["teach"]])
        found: dict[str, Any] = {
            "known_from": of["known_from"], "known_to": [OPEN_END if to is None else to for to in of["known_to"]],
            "entry_us": of["entry_at"], "exit_us": of["exit_at"],
            "symbol_code": symbol_codes, "strategy_code": self.strategies.coded(of["strategy"]),
            "regime_code": labels[0], "volatility_code": labels[1], "session_code": labels[2],
            "labels_code": [sets.setdefault(codes, len(sets)) for codes in zip(*labels, strict=True)],
            "side_code": shorts, "has_r": has_r, "r": r, "has_money": has_money, "money": money, "shared": False,
            "signal": [
                (at // SECOND_US << SIGNAL_BITS) + 2 * code + short
                for at, code, short in zip(of["entry_at"], symbol_codes, shorts, strict=True)
            ],
            "source_r": [R_SOURCES[source] for source in of["r_source"]], "claimed": of["claimed"],
            "teaches": trade & ~aside, "shadow": ~trade, "aside": aside, "tier": of["tier"],
            "source_code": self.sources.coded(of["source"]),
            "conf": 0.5 + 0.5 * np.clip(np.where(has_confidence, confidence, 0.5), 0.0, 1.0),
        }  # fmt: skip
        for name in LEVELS:
            found[f"{name}_state"], found[f"{name}_level"] = _level(name, of[name])
        return found

    def _grow(self, capacity: int) -> None:
        for name, dtype in _TYPES.items():
            grown = np.zeros(capacity, dtype)
            if self._capacity:
                grown[: self.n] = getattr(self, name)[: self.n]
            setattr(self, name, grown)
        self._capacity = capacity

    def _index(self, start: int, stop: int) -> None:
        """List new rows by segment and note the latest moment among them."""
        symbol, strategy = self.symbol_code[start:stop], self.strategy_code[start:stop]
        pairs = symbol.astype(np.int64) * 2**16 + strategy
        for pair in distinct(pairs):
            key = (int(pair) >> 16, int(pair) & 0xFFFF)
            self._segments.setdefault(key, []).append(np.flatnonzero(pairs == pair) + start)
        self._latest = max(self._latest, int(self.known_from[start:stop].max()), int(self.exit_us[start:stop].max()))
        self._revised = self._revised or bool((self.known_to[start:stop] != OPEN_END).any())

    def _compact(self) -> None:
        """Remove dropped rows from the arrays if there are many."""
        if self.dropped >= COMPACT_FROM_DROPPED_ROWS and 4 * self.dropped >= self.n:
            self._rearrange(0, self._live_rows(0))

    def _rearrange(self, start: int, rows: NDArray[np.intp]) -> None:
        """Let these rows, in this order, be all that there is from a place on."""
        stop = start + len(rows)
        for name in _TYPES:
            getattr(self, name)[start:stop] = getattr(self, name)[rows]
        for id in set(self.ids[start:]):
            self._rows[id] = [at for at in self._rows[id] if at < start]
        self.ids[start:] = [self.ids[at] for at in rows.tolist()]
        for at in range(start, stop):
            self._rows[self.ids[at]].append(at)
        self.dropped -= self.n - stop
        self.n = stop
        for key in self._segments:
            self._segments[key] = [part[part < start] for part in self._joined(key)]
        if start == 0:
            self._latest, self._revised = -OPEN_END, False
        if rows.size:
            self._index(start, stop)

    # --- the order of rows ----------------------------------------------------------------------------------------------

    def _live_rows(self, start: int) -> NDArray[np.intp]:
        """The rows from a place on that are not dropped."""
        return np.flatnonzero(self.known_from[start : self.n] != OPEN_END) + start

    def _comes_last(self, row: Row) -> bool:
        """Returns True if a row may stand after all others: trades that close one after the other are only appended."""
        if not self.n or row[_EXIT_AT] > self.exit_us[self.n - 1]:
            return True
        # Dropped rows keep their exits, by which `newest` searches, but their place among equal exits no longer matters.
        if row[_EXIT_AT] < self.exit_us[self.n - 1]:
            return False
        last = self.n - 1
        while last >= 0 and self.known_from[last] == OPEN_END:
            last -= 1
        if last < 0 or self.exit_us[last] < row[_EXIT_AT]:
            return True
        return (self.ids[last], int(self.known_from[last])) < (row[0], row[1])

    def _live_rows_by_exit(self, start: int) -> NDArray[np.intp]:
        """The same rows in their order: by exit, equal exits by id and then by known_from."""
        rows = self._live_rows(start)
        rows = rows[np.argsort(self.exit_us[rows], kind="stable")]
        ends = np.flatnonzero(np.diff(self.exit_us[rows])) + 1
        starts, ends = np.concatenate(([0], ends)), np.concatenate((ends, [len(rows)]))
        together = ends - starts > 1
        for start, end in zip(starts[together].tolist(), ends[together].tolist(), strict=True):
            rows[start:end] = sorted(rows[start:end].tolist(), key=lambda at: (self.ids[at], int(self.known_from[at])))
        return rows

    # --- reading --------------------------------------------------------------------------------------------------------

    def mask(self, as_of: int, symbol: str | None, strategy: str | None) -> Bools:
        """Flags the rows that were believed at a moment and pass the filters."""
        found = self.believed(slice(0, self.n), as_of)
        for wanted, names, codes in ((symbol, self.symbols, self.symbol_code), (strategy, self.strategies, self.strategy_code)):
            if wanted is not None:
                found &= codes[: self.n] == names.codes.get(wanted, -2)
        return found

    def believed(self, rows: Rows, as_of: int) -> Bools:
        """Flags those of the given rows that were believed at a moment."""
        if self.is_now(as_of):
            return np.ones(rows.stop - rows.start if isinstance(rows, slice) else len(rows), np.bool_)
        found: Bools = (self.exit_us[rows] <= as_of) & (self.known_from[rows] <= as_of) & (self.known_to[rows] > as_of)
        return found

    def is_now(self, as_of: int) -> bool:
        """Returns True if every row closed before this moment and is believed at it, as in most questions about now."""
        return as_of > self._latest and not self._revised

    def segment(self, symbol: str | None, strategy: str | None) -> Rows:
        """The rows that pass the filters, in order."""
        if symbol is None and strategy is None:
            return slice(0, self.n)
        codes = (None if symbol is None else self.symbols.codes.get(symbol, -2),
                 None if strategy is None else self.strategies.codes.get(strategy, -2))  # fmt: skip
        found = [part for key in self._segments if all(want in (None, has) for want, has in zip(codes, key, strict=True))
                 for part in self._joined(key)]  # fmt: skip
        # Several segments are merged into the order of rows, or sums would depend on which segment appeared first.
        return np.sort(np.concatenate(found), kind="stable") if found else np.zeros(0, np.intp)

    def _joined(self, key: tuple[int, int]) -> list[NDArray[np.intp]]:
        if len(self._segments[key]) > 1:
            self._segments[key] = [np.concatenate(self._segments[key])]
        return self._segments[key]

    def newest(self, before: int) -> Iterator[NDArray[np.intp]]:
        """Rows that closed before a moment, the newest first, a stretch at a time."""
        stop = int(np.searchsorted(self.exit_us[: self.n], before, side="left"))
        for end in range(stop, 0, -STRETCH_ROWS):
            yield np.arange(end - 1, max(end - STRETCH_ROWS, 0) - 1, -1)

    def rows_of(self, id: str) -> list[int]:
        """The versions of an episode."""
        return self._rows.get(id, [])


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The values without repetition, in order.

    `np.unique` without more to return imports `numpy.ma`, which takes as long as half of numpy itself.

    >>> distinct(np.array([3, 1, 3])).tolist(), distinct(np.array([], np.int64)).tolist()
    ([1, 3], [])
    """
    ordered = np.sort(values)
    first = np.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    found: NDArray[Any] = ordered[first]
    return found


def median_of(values: Floats) -> float:
    """The median of one or more numbers, to the bit as `np.median`, which imports `numpy.ma` too.

    >>> median_of(np.array([3.0, 1.0, 2.0])), median_of(np.array([1.0, 4.0]))
    (2.0, 2.5)
    """
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def _copied(value: Any) -> Any:
    """A field of columns that can be changed without changing the original; `deepcopy` takes ten times as long."""
    if isinstance(value, dict):
        return {key: list(rows) if isinstance(rows, list) else rows for key, rows in value.items()}
    return value.copy() if isinstance(value, np.ndarray | list) else value


def _exit_order(row: Row) -> tuple[int, str, int]:
    """The place of a row among others: by exit, then id, then known_from."""
    return row[_EXIT_AT], row[0], row[1]


def _numbers(values: Sequence[float | None]) -> tuple[Floats, Bools]:
    """Numbers, with 0 for a missing one, and flags that say which are known."""
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
