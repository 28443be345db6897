"""The SQL of bars. The log holds only their digests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from memtape.core.codec import micros, moment
from memtape.store.cutoff import FOREVER, MINE, NEVER
from memtape.store.database import in_batches
from memtape.store.rows import COLUMNS, bar_values, known_bar_from_row, time_of

if TYPE_CHECKING:
    from memtape.core.ids import OwnerId
    from memtape.core.ledger.rounds import KnownBar
    from memtape.core.observed import Bar
    from memtape.store.cutoff import Cutoff, FlatPoint
    from memtape.store.database import Row, Session
    from memtape.store.kept_memories import KeptMemories

WINDOWS_PER_QUERY = 200  # databases limit the number of parameters


class BarTables:
    """The bars of one stream of one owner, in one transaction."""

    def __init__(self, session: Session, owner: OwnerId, stream: str) -> None:
        self.session, self.owner, self.stream = session, owner, stream
        self._mine = {"owner": owner, "stream": stream}
        self.kept: KeptMemories | None = None  # in a transaction of many values

    def bars(
        self, symbol: str, known: Cutoff, *, ending_after: datetime | None = None, ending_by: datetime | None = None
    ) -> list[KnownBar]:
        """The bars of a symbol in order of their end."""
        rows = self.session.all(
            f"SELECT symbol, t0, t1, o, h, l, c, v, known_at FROM bars WHERE {MINE} AND symbol = :symbol AND t1 > :after "
            "AND t1 <= :by AND known_at <= :as_of AND seq <= :upto ORDER BY t1, frame DESC",
            {**self._mine, "symbol": symbol, "after": NEVER if ending_after is None else micros(ending_after),
             "by": FOREVER if ending_by is None else micros(ending_by), **known.limits()},
        )  # fmt: skip
        return [known_bar_from_row(row) for row in rows]

    def bars_within(
        self, symbol: str, first: datetime, until: datetime | None, longest: timedelta, known: Cutoff
    ) -> list[KnownBar]:
        """The bars of a symbol, up to a length, that began at a moment or later and ended by another, in order of time."""
        rows = self.session.all(
            f"SELECT symbol, t0, t1, o, h, l, c, v, known_at FROM bars WHERE {MINE} AND symbol = :symbol AND t0 >= :first "
            "AND t0 < :until AND t1 <= :until AND frame <= :longest AND known_at <= :as_of AND seq <= :upto ORDER BY t0, frame",
            {**self._mine, "symbol": symbol, "first": micros(first), "until": FOREVER if until is None else micros(until),
             "longest": int(longest.total_seconds()), **known.limits()},
        )  # fmt: skip
        return [known_bar_from_row(row) for row in rows]

    def bar_times(self, symbol: str, length: timedelta, first: datetime) -> list[tuple[datetime, datetime]]:
        """The bars of one length that began at a moment or later: when each began, and when it was known; in order of time."""
        span = int(length.total_seconds())
        rows = self.session.all(
            f"SELECT t0, t1, known_at FROM bars WHERE {MINE} AND symbol = :symbol AND frame = :frame AND t1 >= :first "
            "ORDER BY t1",
            {**self._mine, "symbol": symbol, "frame": span, "first": micros(first) + span * 1_000_000},
        )
        return [(moment(t0), moment(max(t1, known_at))) for t0, t1, known_at in rows]

    def has_shorter_bars(self, symbol: str, first: datetime, before: datetime, length: timedelta) -> bool:
        """Returns True if a symbol has bars shorter than a length that began between two moments."""
        rows = self.session.all(
            f"SELECT 1 FROM bars WHERE {MINE} AND symbol = :symbol AND t0 >= :first AND t0 < :before AND frame < :frame LIMIT 1",
            {**self._mine, "symbol": symbol, "first": micros(first), "before": micros(before),
             "frame": int(length.total_seconds())},
        )  # fmt: skip
        return bool(rows)

    def count_bars(self, symbol: str, length: timedelta, first: datetime, until: datetime) -> int:
        """How many bars of one length a symbol has between two moments."""
        rows = self.session.all(
            f"SELECT count(*) FROM bars WHERE {MINE} AND symbol = :symbol AND frame = :frame AND t1 > :first AND t1 <= :until",
            {**self._mine, "symbol": symbol, "frame": int(length.total_seconds()), "first": micros(first),
             "until": micros(until)},
        )  # fmt: skip
        return int(rows[0][0])

    def bars_in_windows(self, symbol: str, windows: Sequence[tuple[datetime, datetime]], known: Cutoff) -> list[KnownBar]:
        """The bars of a symbol that end after the first and by the second moment of one of these windows, in order."""
        found: dict[tuple[int, int], Row] = {}
        for some in in_batches(windows, WINDOWS_PER_QUERY):
            listed = ", ".join(f"(:after_{n}, :by_{n})" for n in range(len(some)))
            params = {f"after_{n}": micros(first) for n, (first, _) in enumerate(some)}
            params |= {f"by_{n}": micros(last) for n, (_, last) in enumerate(some)}
            rows = self.session.all(
                f"WITH windows (after_t, by_t) AS (VALUES {listed}) "
                # A cross join, so that SQLite goes from each window to its bars and not from each bar to the windows.
                "SELECT symbol, t0, t1, o, h, l, c, v, known_at FROM windows CROSS JOIN bars "
                f"WHERE {MINE} AND symbol = :symbol AND t1 > after_t AND t1 <= by_t AND known_at <= :as_of AND seq <= :upto",
                {**self._mine, "symbol": symbol, **params, **known.limits()},
            )
            # Windows may overlap.
            found |= {(row[2], row[1]): row for row in rows}
        return [known_bar_from_row(found[key]) for key in sorted(found)]

    def bar_symbols(self, known: Cutoff) -> list[str]:
        """The symbols that have bars."""
        rows = self.session.all(
            f"SELECT DISTINCT symbol FROM bars WHERE {MINE} AND known_at <= :as_of AND seq <= :upto ORDER BY symbol",
            {**self._mine, **known.limits()},
        )
        return [symbol for (symbol,) in rows]

    def last_bar(self, symbol: str, by: datetime | None, known: Cutoff) -> KnownBar | None:
        """The last bar completed by a moment; None: the last of all."""
        rows = self.session.all(
            f"SELECT symbol, t0, t1, o, h, l, c, v, known_at FROM bars WHERE {MINE} AND symbol = :symbol AND t1 <= :by "
            "AND known_at <= :as_of AND seq <= :upto ORDER BY t1 DESC, frame LIMIT 1",
            {**self._mine, "symbol": symbol, "by": FOREVER if by is None else micros(by), **known.limits()},
        )
        return known_bar_from_row(rows[0]) if rows else None

    def first_bar(self, symbol: str, after: datetime, known: Cutoff) -> KnownBar | None:
        """The first bar that ended at a moment or later."""
        rows = self.session.all(
            f"SELECT symbol, t0, t1, o, h, l, c, v, known_at FROM bars WHERE {MINE} AND symbol = :symbol AND t1 >= :after "
            "AND known_at <= :as_of AND seq <= :upto ORDER BY t1, frame LIMIT 1",
            {**self._mine, "symbol": symbol, "after": micros(after), **known.limits()},
        )
        return known_bar_from_row(rows[0]) if rows else None

    def bars_before(self, symbol: str, flat: FlatPoint, known: Cutoff) -> list[KnownBar]:
        """The bars before a flat point that may price something after it, in any belief.

        From the last one back to the first that was known when the flat point was settled.
        """
        found: list[KnownBar] = []
        by = flat.at
        while known_bar := self.last_bar(symbol, by, known):
            found.append(known_bar)
            if known_bar.known_at <= flat.known_at:
                break
            by = known_bar.bar.t1 - timedelta(microseconds=1)
        return found

    def bars_end(self, symbol: str) -> datetime | None:
        """When the last known bar of a symbol ended."""
        rows = self.session.all(f"SELECT max(t1) FROM bars WHERE {MINE} AND symbol = :symbol", {**self._mine, "symbol": symbol})
        return time_of(rows[0][0])

    def bars_between(self, symbol: str, first: datetime, last: datetime) -> dict[tuple[int, datetime], Bar]:
        """Bars by (frame, open time) whose open time lies in a range."""
        rows = self.session.all(
            f"SELECT symbol, t0, t1, o, h, l, c, v, known_at FROM bars WHERE {MINE} AND symbol = :symbol "
            "AND t0 BETWEEN :first AND :last",
            {**self._mine, "symbol": symbol, "first": micros(first), "last": micros(last)},
        )
        found = [known_bar_from_row(row).bar for row in rows]
        return {(bar.frame, bar.t0): bar for bar in found}

    def bar_row(self, bar: Bar) -> int:
        """The log row that brought a stored bar."""
        rows = self.session.all(
            f"SELECT seq FROM bars WHERE {MINE} AND symbol = :symbol AND frame = :frame AND t0 = :t0",
            {**self._mine, "symbol": bar.symbol, "frame": bar.frame, "t0": micros(bar.t0)},
        )
        return int(rows[0][0])

    def put_bars(self, bars: Iterable[KnownBar], seq: int) -> None:
        """Add bars that a log row brought."""
        listed = list(bars)
        self.put_bar_values(listed, [bar_values(self.owner, self.stream, known.bar, seq, known.known_at) for known in listed])

    def put_bar_values(self, bars: Sequence[KnownBar], values: Sequence[Row]) -> None:
        """Add bars as the values of their rows."""
        self.session.insert("bars", COLUMNS["bars"], values)
