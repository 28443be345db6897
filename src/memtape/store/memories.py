"""The SQL of memories: episodes, steps of affect, outcomes of decisions, plans; and which episodes changed when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memtape.core.codec import micros, moment
from memtape.core.decisions.followed import FollowedOutcome
from memtape.core.ledger.versions import TradeVersion
from memtape.core.memory.affect import AffectStep
from memtape.core.memory.episodes import EPISODE_FIELDS, NOT_TAUGHT
from memtape.core.memory.market import FRAMES, CompletedBar, Market, bars_needed
from memtape.core.memory.plans import PlanState
from memtape.store.cutoff import FOREVER, MINE, NEVER
from memtape.store.database import Row, in_batches
from memtape.store.kept_memories import MAX_OUTCOMES_KEPT, KeptMarket
from memtape.store.rows import (
    COLUMNS,
    affect_from_row,
    affect_values,
    episode_from_row,
    episode_values,
    micros_of,
    outcome_from_row,
    outcome_values,
    time_of,
    trade_from_row,
)
from memtape.store.trades import TRADE_LIST

if TYPE_CHECKING:
    from memtape.core.ids import OwnerId
    from memtape.core.items import Position
    from memtape.core.memory.episodes import Episode
    from memtape.core.observed import Frame
    from memtape.store.kept_memories import KeptMemories
    from memtape.store.tables import Tables

_EPISODE_LIST = ", ".join(EPISODE_FIELDS)
_AFFECT_LIST = ", ".join(AffectStep._fields)
_OUTCOME_LIST = ", ".join(FollowedOutcome._fields)
_VERSION_LIST = f"known_from, known_to, settled_at, {TRADE_LIST}"
EVERY_ONE = "*"  # in `changes`: too many changed to name them
MAX_NAMED_CHANGES = 2_000
MICROSECONDS = 1_000_000  # in a second
MAX_BARS_KEPT = 20_000  # of one symbol, in a transaction of many values


# One probe of the index for each length, in one statement: the lengths of a symbol are few, its bars are many.
_FRAMES_PRESENT = " UNION ALL ".join(
    f"SELECT {frame} WHERE EXISTS (SELECT 1 FROM bars WHERE {MINE} AND symbol = :symbol AND frame = {frame} AND t1 <= :until "
    "AND known_at <= :until AND seq <= :upto)"
    for frame in FRAMES
)


# Likewise for the outcomes of a frame.
_FOLLOWED = f"SELECT 1 FROM outcomes WHERE {MINE} AND symbol = :symbol AND frame = '{{0}}' AND until"
_FRAME_FOLLOWED = f"SELECT '{{0}}' WHERE EXISTS ({_FOLLOWED} IS NULL) OR EXISTS ({_FOLLOWED} > :first_{{0}})"


_BARS_OF_LENGTH = (
    f"SELECT frame, t0, t1, known_at, o, h, l, c FROM bars WHERE {MINE} AND symbol = :symbol AND frame = :frame"
)


def _market_of(rows: Iterable[Row]) -> Market:
    return Market(
        CompletedBar(f, t0, t1, known, float(o), float(h), float(low), float(c)) for f, t0, t1, known, o, h, low, c in rows
    )


class MemoryTables:
    """The memories of one stream, in one transaction."""

    def __init__(self, tables: Tables) -> None:
        self.session, self.owner, self.stream = tables.session, tables.owner, tables.stream
        self._mine = {"owner": self.owner, "stream": self.stream}
        self._kept = tables.kept

    # ---- episodes -------------------------------------------------------------------------------------------------

    def put_episodes(self, episodes: Sequence[Episode]) -> None:
        """Add versions of episodes."""
        rows = [episode_values(self.owner, self.stream, episode) for episode in episodes]
        self.session.insert("episodes", COLUMNS["episodes"], rows)
        if self._kept is not None:
            self._kept.add_episodes(episodes)

    def drop_episodes(self, ids: Iterable[str]) -> None:
        """Remove episodes in all their versions, before they are formed again."""
        for some in in_batches(sorted(ids)):
            self.session.run(f"DELETE FROM episodes WHERE {MINE} AND id IN :ids", {**self._mine, "ids": some})

    def episodes(self, ids: Iterable[str] | None = None) -> list[Episode]:
        """All episodes, or some, in all their versions."""
        return [episode_from_row(row) for row in self.episode_rows(ids)]

    def episode_rows(self, ids: Iterable[str] | None = None) -> list[Row]:
        """The same as rows, for the columns. Their order is left to the database: the columns have an order of their own."""
        if ids is None:
            return self.session.all(f"SELECT {_EPISODE_LIST} FROM episodes WHERE {MINE}", self._mine)
        rows: list[Row] = []
        for some in in_batches(sorted(set(ids))):
            own = {**self._mine, "ids": some}
            rows += self.session.all(f"SELECT {_EPISODE_LIST} FROM episodes WHERE {MINE} AND id IN :ids", own)
        return rows

    def episodes_entered_in(self, seconds: Iterable[int]) -> list[Episode]:
        """The episodes of trades that were entered in one of some seconds, in all their versions."""
        wanted = sorted(set(seconds))
        if not wanted:
            return []
        # One part for each second: the index of entries serves each of them, and not a condition with OR.
        part = f"SELECT {_EPISODE_LIST} FROM episodes WHERE {MINE} AND entry_at BETWEEN"
        times = {f"first{n}": MICROSECONDS * second for n, second in enumerate(wanted)}
        times |= {f"last{n}": MICROSECONDS * second + MICROSECONDS - 1 for n, second in enumerate(wanted)}
        parts = [f"{part} :first{n} AND :last{n}" for n in range(len(wanted))]
        return [episode_from_row(row) for row in self.session.all(" UNION ALL ".join(parts), {**self._mine, **times})]

    def entry_labels(self, ids: Iterable[str], as_of: datetime) -> dict[str, dict[str, str | None]]:
        """The labels of the entries of some episodes, in the versions believed at a moment, by episode."""
        fields = ("regime", "volatility_regime", "session")
        found: dict[str, dict[str, str | None]] = {}
        for some in in_batches(sorted(set(ids))):
            rows = self.session.all(
                f"SELECT id, {', '.join(fields)} FROM episodes WHERE {MINE} AND id IN :ids AND exit_at <= :as_of "
                "AND known_from <= :as_of AND (known_to IS NULL OR known_to > :as_of)",
                {**self._mine, "ids": some, "as_of": micros(as_of)},
            )
            found |= {id_: dict(zip(fields, labels, strict=True)) for id_, *labels in rows}
        return found

    def latest(
        self, as_of: datetime, limit: int, symbol: str | None, strategy: str | None, *, trades: bool = False, claims: bool = True
    ) -> list[Episode]:
        """The last episodes by exit, as they were believed at a moment, oldest first; with `trades`, only those of trades."""
        where, params = "", {}  # type: str, dict[str, Any]
        if trades:
            where = " AND kind = 'trade'" + ("" if claims else " AND claimed = 0")
        for name, value in (("symbol", symbol), ("strategy", strategy)):
            if value is not None:
                where, params[name] = f"{where} AND {name} = :{name}", value
        rows = self.session.all(
            f"SELECT {_EPISODE_LIST} FROM episodes WHERE {MINE} AND exit_at <= :as_of AND known_from <= :as_of "
            f"AND (known_to IS NULL OR known_to > :as_of){where} ORDER BY exit_at DESC, id DESC LIMIT :limit",
            {**self._mine, **params, "as_of": micros(as_of), "limit": limit},
        )
        return [episode_from_row(row) for row in reversed(rows)]

    def money_results(self, as_of: datetime, *, claims: bool) -> list[float]:
        """The results in money of all trades that teach, as they were believed at a moment."""
        rows = self.session.all(
            f"SELECT pnl_usd, teach FROM episodes WHERE {MINE} AND exit_at <= :as_of AND known_from <= :as_of "
            "AND (known_to IS NULL OR known_to > :as_of) AND kind = 'trade' AND pnl_usd IS NOT NULL"
            + ("" if claims else " AND claimed = 0"),
            {**self._mine, "as_of": micros(as_of)},
        )
        return [result for result, teach in rows if teach not in NOT_TAUGHT]

    def exited_between(self, first: datetime, last: datetime) -> list[str]:
        """The ids of the trades of which any version ended within a time."""
        rows = self.session.all(
            f"SELECT DISTINCT id FROM episodes WHERE {MINE} AND kind = 'trade' AND exit_at BETWEEN :first AND :last ORDER BY id",
            {**self._mine, "first": micros(first), "last": micros(last)},
        )
        return [id_ for (id_,) in rows]

    def ended_after(self, moment_: datetime | None, most: int) -> int:
        """How many trades, as they are believed now, ended after a moment; counted up to `most`."""
        if self._kept is not None and (kept := self._kept.ended_after(moment_, most)) is not None:
            return kept
        rows = self.session.all(
            f"SELECT count(*) FROM (SELECT 1 AS one FROM episodes WHERE {MINE} AND exit_at > :at AND kind = 'trade' "
            "AND known_to IS NULL LIMIT :most) AS few",
            {**self._mine, "at": NEVER if moment_ is None else micros(moment_), "most": most},
        )
        if self._kept is not None:
            self._kept.set_ended_after(moment_, most, int(rows[0][0]))
        return int(rows[0][0])

    def entered_since(self, moment_: datetime) -> bool:
        """Returns True if an episode was entered at a moment or later."""
        if (kept := self._kept) is not None:
            if not kept.entries_known:
                rows = self.session.all(f"SELECT max(entry_at) FROM episodes WHERE {MINE}", self._mine)
                kept.last_entry, kept.entries_known = time_of(rows[0][0]), True
            return kept.last_entry is not None and kept.last_entry >= moment_
        own = {**self._mine, "at": micros(moment_)}
        return bool(self.session.all(f"SELECT 1 FROM episodes WHERE {MINE} AND entry_at >= :at LIMIT 1", own))

    # ---- what changed ---------------------------------------------------------------------------------------------

    def note_changes(self, ids: Iterable[str]) -> None:
        """Note which episodes changed, for readers with columns in memory."""
        named = sorted(set(ids))
        if not named:
            return
        revision = self.revision() + 1
        if self._kept is not None:
            self._kept.revision = revision
        noted = named if len(named) <= MAX_NAMED_CHANGES else [EVERY_ONE]
        self.session.insert("changes", COLUMNS["changes"], [(self.owner, self.stream, revision, id_) for id_ in noted])

    def revision(self) -> int:
        """How often episodes have changed."""
        if self._kept is not None and self._kept.revision is not None:
            return self._kept.revision
        rows = self.session.all(f"SELECT max(revision) FROM changes WHERE {MINE}", self._mine)
        return int(rows[0][0] or 0)

    def changed_since(self, revision: int) -> set[str]:
        """The ids of the episodes that changed after a revision; contains EVERY_ONE if all may have."""
        rows = self.session.all(f"SELECT id FROM changes WHERE {MINE} AND revision > :seen", {**self._mine, "seen": revision})
        return {id_ for (id_,) in rows}

    # ---- affect ---------------------------------------------------------------------------------------------------

    def put_affect(self, steps: Sequence[AffectStep]) -> None:
        """Add steps of affect."""
        self.session.insert("affect", COLUMNS["affect"], [affect_values(self.owner, self.stream, step) for step in steps])
        if self._kept is not None:
            self._kept.add_steps(steps)

    def drop_affect(self, since: datetime) -> None:
        """Remove the steps from a moment on, before they are computed again."""
        self.session.run(f"DELETE FROM affect WHERE {MINE} AND at >= :since", {**self._mine, "since": micros(since)})

    def affect_until(self, moment_: datetime | None, limit: int, *, before: bool = False) -> list[AffectStep]:
        """The last steps at or before a moment, oldest first; with `before`, only those before it."""
        last = self._last_step() if limit == 1 else None
        if last is not None and (moment_ is None or last.at < moment_ or (last.at == moment_ and not before)):
            return [last]
        kept = self._kept.steps_until(moment_, limit) if self._kept is not None and moment_ is not None and not before else None
        if kept is not None:
            return kept
        rows = self.session.all(
            f"SELECT {_AFFECT_LIST} FROM affect WHERE {MINE} AND at {'<' if before else '<='} :until "
            "ORDER BY at DESC, rank DESC, id DESC LIMIT :limit",
            {**self._mine, "until": FOREVER if moment_ is None else micros(moment_), "limit": limit},
        )
        return [affect_from_row(row) for row in reversed(rows)]

    def affect_after(self, moment_: datetime, end: datetime | None) -> list[AffectStep]:
        """The steps after a moment, oldest first, and before `end` if there is one."""
        rows = self.session.all(
            f"SELECT {_AFFECT_LIST} FROM affect WHERE {MINE} AND at > :moment AND at < :end ORDER BY at, rank, id",
            {**self._mine, "moment": micros(moment_), "end": FOREVER if end is None else micros(end)},
        )
        return [affect_from_row(row) for row in rows]

    def _last_step(self) -> AffectStep | None:
        """The last step of all, where it is kept in memory."""
        if self._kept is None:
            return None
        if self._kept.last_step is None:
            rows = self.session.all(
                f"SELECT {_AFFECT_LIST} FROM affect WHERE {MINE} ORDER BY at DESC, rank DESC, id DESC LIMIT 1", self._mine
            )
            self._kept.set_last_step(affect_from_row(rows[0]) if rows else None)
        return self._kept.last_step

    def affect_count(self, until: datetime | None) -> int:
        """How many steps had happened and were known by a moment."""
        own = {**self._mine, "until": FOREVER if until is None else micros(until)}
        known = f"SELECT count(*) FROM affect WHERE {MINE} AND at <= :until AND known_at <= :until"
        return int(self.session.all(known, own)[0][0])

    def outcomes_before(self, moment_: datetime, limit: int = 100) -> list[float]:
        """The last outcomes in R of the closes before a moment, oldest first."""
        kept, last = self._kept, self._last_step()
        if kept is not None and last is not None and last.at < moment_ and limit <= MAX_OUTCOMES_KEPT:
            if kept.outcomes is None:
                kept.outcomes = self._outcomes_before(moment_, MAX_OUTCOMES_KEPT)
            return kept.outcomes[-limit:]
        return self._outcomes_before(moment_, limit)

    def _outcomes_before(self, moment_: datetime, limit: int) -> list[float]:
        rows = self.session.all(
            f"SELECT pnl_r FROM affect WHERE {MINE} AND at < :until AND rank = 1 AND pnl_r IS NOT NULL "
            "ORDER BY at DESC, rank DESC, id DESC LIMIT :limit",
            {**self._mine, "until": micros(moment_), "limit": limit},
        )
        return [r for (r,) in reversed(rows)]

    # ---- trades, from which memories are formed -------------------------------------------------------------------

    def versions(
        self, *, ids: Iterable[str] | None = None, exited: datetime | None = None, entered: datetime | None = None,
        current_only: bool = False,
    ) -> list[TradeVersion]:  # fmt: skip
        """Versions of closed trades: of some ids, or of those that ended or were entered since a moment.

        With `current_only`, only the versions that are believed now.
        """
        where, params = "1 = 1" if not current_only else "known_to IS NULL", {}  # type: str, dict[str, Any]
        if exited is not None:
            where, params = f"{where} AND exit_at >= :exited", {"exited": micros(exited)}
        if entered is not None:
            # All versions of these trades: a corrected fill may have moved the entry of some of them.
            ids_entered = f"SELECT id FROM trades WHERE {MINE} AND entry_at >= :entered"
            where, params = f"{where} AND id IN ({ids_entered})", params | {"entered": micros(entered)}
        if ids is None:
            return self._versions(where, params)
        found: list[TradeVersion] = []
        for some in in_batches(sorted(set(ids))):
            found += self._versions(f"{where} AND id IN :ids", params | {"ids": some})
        return found

    def entered_near(self, symbol: str, first: datetime, last: datetime, claimed: bool) -> list[TradeVersion]:
        """Current versions of the trades of a symbol that were entered within a time: claims, or trades of the ledger."""
        sign = "=" if claimed else "<>"
        where = f"known_to IS NULL AND symbol = :symbol AND entry_at BETWEEN :first AND :last AND quality {sign} 'claimed'"
        return self._versions(where, {"symbol": symbol, "first": micros(first), "last": micros(last)})

    def _versions(self, where: str, params: dict[str, Any]) -> list[TradeVersion]:
        rows = self.session.all(f"SELECT {_VERSION_LIST} FROM trades WHERE {MINE} AND {where}", {**self._mine, **params})
        return [TradeVersion(trade_from_row(row[3:]), moment(row[0]), time_of(row[1]), time_of(row[2])) for row in rows]

    def replaced_at(self, moment_: datetime) -> bool:
        """Returns True if a trade was believed at a moment in a version that was replaced since."""
        if self._kept is not None:
            if self._kept.versions_ended is None:
                ended = f"SELECT 1 FROM trades WHERE {MINE} AND known_to > :never LIMIT 1"
                self._kept.versions_ended = bool(self.session.all(ended, {**self._mine, "never": NEVER}))
            if not self._kept.versions_ended:
                return False
        rows = self.session.all(
            f"SELECT 1 FROM trades WHERE {MINE} AND known_to > :at AND known_from <= :at LIMIT 1",
            {**self._mine, "at": micros(moment_)},
        )
        return bool(rows)

    def replaced_spans(self) -> list[tuple[datetime, datetime]]:
        """The spans of time in which versions that were replaced since were believed."""
        rows = self.session.all(f"SELECT known_from, known_to FROM trades WHERE {MINE} AND known_to IS NOT NULL", self._mine)
        return [(moment(start), moment(end)) for start, end in rows]

    def unsettled_since(self, known_at: datetime, by: datetime) -> set[Position]:
        """The positions of which something up to the moment `by` became known, or was taken back, after `known_at`."""
        own = {**self._mine, "known": micros(known_at), "by": micros(by)}
        rows = self.session.all(
            f"SELECT DISTINCT symbol, leg FROM trades WHERE {MINE} AND entry_at <= :by "
            "AND quality NOT IN ('reported', 'claimed') AND (known_from > :known OR known_to > :known OR settled_at > :known)",
            own,
        )
        rows += self.session.all(
            f"SELECT DISTINCT symbol, leg FROM items WHERE {MINE} AND kind IN ('fill', 'funding') AND at <= :by "
            "AND (known_at > :known OR void_at > :known)",
            own,
        )
        return {(symbol, leg) for symbol, leg in rows}

    def replaced_since(self, symbol: str, t0: datetime, t1: datetime, known_at: datetime) -> list[tuple[Position, datetime]]:
        """The positions of a symbol with versions that ended after `known_at` and that bars over [t0, t1) may change.

        Each comes with the first such entry.
        """
        rows = self.session.all(
            f"SELECT symbol, leg, min(entry_at) FROM trades WHERE {MINE} AND known_to > :known AND symbol = :symbol "
            "AND exit_at > :t0 AND quality NOT IN ('reported', 'claimed') AND (entry_at < :t1 OR quality <> 'fills') "
            "GROUP BY symbol, leg",
            {**self._mine, "symbol": symbol, "t0": micros(t0), "t1": micros(t1), "known": micros(known_at)},
        )
        return [((symbol_, leg), moment(at)) for symbol_, leg, at in rows]

    # ---- bars by length -------------------------------------------------------------------------------------------

    def frames(self, symbol: str, until: int, upto: int = FOREVER) -> list[int]:
        """The lengths (of those in use) of the bars of a symbol that had ended and were known by a moment."""
        own = {**self._mine, "symbol": symbol, "until": until, "upto": upto}
        return [int(frame) for (frame,) in self.session.all(_FRAMES_PRESENT, own)]

    def market(self, symbol: str, until: datetime | None, head: int | None = None) -> Market | None:
        """The market of a symbol, with the bars that its state at one moment needs; without a moment, with all of them."""
        if self._kept is not None and until is not None and head is None:
            return self._kept_market(self._kept, symbol, until)
        at, upto = FOREVER if until is None else micros(until), FOREVER if head is None else head
        present = self.frames(symbol, at, upto)
        if not present:
            return None
        most = dict.fromkeys(present, FOREVER) if until is None else bars_needed(present)
        return _market_of([row for frame in present for row in self._last_bars(symbol, frame, at, upto, most[frame])])

    def _last_bars(self, symbol: str, frame: int, until: int, upto: int, most: int) -> list[Row]:
        """The last bars of one length that had ended and were known by a moment, newest first."""
        return self.session.all(
            f"{_BARS_OF_LENGTH} AND t1 <= :until AND known_at <= :until AND seq <= :upto ORDER BY t1 DESC LIMIT :most",
            {**self._mine, "symbol": symbol, "frame": frame, "until": until, "upto": upto, "most": most},
        )

    def _kept_market(self, kept: KeptMemories, symbol: str, until: datetime) -> Market | None:
        """The market of a symbol in memory: with the bars that its state at a moment needs, and all that ended later."""
        earlier = kept.markets.get(symbol)
        if earlier is not None and (market := earlier.at(until)) is not None:
            return market
        kept.markets.pop(symbol, None)
        at, rows = micros(until), list[Row]()
        known = self.frames(symbol, at)
        most = bars_needed(known)
        for frame in self.frames(symbol, FOREVER):
            last = self._last_bars(symbol, frame, at, FOREVER, most[frame]) if frame in known else []
            # With fewer bars than a state uses, every earlier one counts as soon as it is known.
            first = last[-1][2] if last and len(last) == most[frame] else NEVER
            own = {**self._mine, "symbol": symbol, "frame": frame, "first": first, "most": MAX_BARS_KEPT}
            rows += self.session.all(f"{_BARS_OF_LENGTH} AND t1 >= :first ORDER BY t1 LIMIT :most", own)
        if len(rows) >= MAX_BARS_KEPT:
            # Much of the future is stored already: one window is read each time.
            return _market_of([row for frame in known for row in self._last_bars(symbol, frame, at, FOREVER, most[frame])])
        market = _market_of(rows)
        kept.markets[symbol] = KeptMarket(until, market)
        return market

    # ---- outcomes of decisions ------------------------------------------------------------------------------------

    def put_outcomes(self, outcomes: Sequence[FollowedOutcome]) -> None:
        """Add versions of outcomes."""
        rows = [outcome_values(self.owner, self.stream, outcome) for outcome in outcomes]
        self.session.insert("outcomes", COLUMNS["outcomes"], rows)

    def drop_outcomes(self, ids: Iterable[str]) -> None:
        """Remove the outcomes of decisions in all their versions, before they are followed again."""
        for some in in_batches(sorted(ids)):
            self.session.run(f"DELETE FROM outcomes WHERE {MINE} AND id IN :ids", {**self._mine, "ids": some})

    def replace_outcomes(self, ids: Iterable[str], outcomes: Sequence[FollowedOutcome]) -> None:
        """Put versions of outcomes in the place of those that are believed now."""
        for some in in_batches(sorted(ids)):
            self.session.run(
                f"DELETE FROM outcomes WHERE {MINE} AND id IN :ids AND known_to IS NULL", {**self._mine, "ids": some}
            )
        self.put_outcomes(outcomes)

    def outcomes(
        self, as_of: datetime, *, ids: Iterable[str] | None = None, symbol: str | None = None, since: datetime | None = None,
        limit: int | None = None,
    ) -> list[FollowedOutcome]:  # fmt: skip
        """The outcomes that were believed at a moment, the newest decisions first."""
        where, params = "known_from <= :as_of AND (known_to IS NULL OR known_to > :as_of)", {}  # type: str, dict[str, Any]
        if symbol is not None:
            where, params = f"{where} AND symbol = :symbol", {"symbol": symbol}
        if since is not None:
            where, params = f"{where} AND at >= :since", params | {"since": micros(since)}
        params |= {"as_of": micros(as_of)}
        if ids is None:
            return self._outcomes(where, params, limit)
        found: list[FollowedOutcome] = []
        for some in in_batches(sorted(set(ids))):
            found += self._outcomes(f"{where} AND id IN :ids", params | {"ids": some}, None)
        return sorted(sorted(found, key=lambda row: row.id), key=lambda row: row.at, reverse=True)[:limit]

    def _outcomes(self, where: str, params: dict[str, Any], limit: int | None) -> list[FollowedOutcome]:
        rows = self.session.all(
            f"SELECT {_OUTCOME_LIST} FROM outcomes WHERE {MINE} AND {where} ORDER BY at DESC, id"
            + ("" if limit is None else f" LIMIT {int(limit)}"),
            {**self._mine, **params},
        )
        return [outcome_from_row(row) for row in rows]

    def may_have_outcomes(self, symbol: str) -> bool:
        """False if it is known that no decision about a symbol is followed.

        That is looked up only while many values are recorded: the answer then stays until a decision is followed.
        """
        if self._kept is None:
            return True
        followed = f"SELECT 1 FROM outcomes WHERE {MINE} AND symbol = :symbol LIMIT 1"
        return bool(self.session.all(followed, {**self._mine, "symbol": symbol}))

    def frames_open_to(self, symbol: str, first: Mapping[Frame, datetime]) -> set[Frame]:
        """The frames of the outcomes of a symbol that new bars may change; `first` says from when the bars concern each frame."""
        own = {**self._mine, "symbol": symbol, **{f"first_{frame}": micros(moment_) for frame, moment_ in first.items()}}
        return {frame for (frame,) in self.session.all(" UNION ALL ".join(map(_FRAME_FOLLOWED.format, first)), own)}

    def outcomes_open_to(
        self, symbol: str, frame: str, first: datetime, before: datetime, known_at: datetime
    ) -> list[FollowedOutcome]:
        """The versions of outcomes that bars which began at `first` or later, and were known at `known_at`, may change.

        Only decisions taken before a moment.
        """
        own = {**self._mine, "symbol": symbol, "frame": frame, "first": micros(first), "before": micros(before),
               "known": micros(known_at)}  # fmt: skip
        which = (
            f"SELECT {_OUTCOME_LIST} FROM outcomes WHERE {MINE} AND symbol = :symbol AND frame = :frame AND at < :before "
            "AND (known_to IS NULL OR known_to > :known) AND until"
        )
        # Two ranges of one index: an OR of them would walk every outcome of the symbol.
        rows = self.session.all(f"{which} IS NULL", own) + self.session.all(f"{which} > :first", own)
        return [outcome_from_row(row) for row in rows]

    def shadows(self, since: datetime | None = None) -> list[str]:
        """The decisions not to trade that are followed, or were until they were taken back; those decided since a moment."""
        rows = self.session.all(
            f"SELECT DISTINCT id FROM outcomes WHERE {MINE} AND at >= :since AND shadow = 1 ORDER BY id",
            {**self._mine, "since": NEVER if since is None else micros(since)},
        )
        return [id_ for (id_,) in rows]

    # ---- plans ----------------------------------------------------------------------------------------------------

    def plans(self, statuses: Sequence[str] = ()) -> list[PlanState]:
        """Plans, in the order in which they were made."""
        where = f"{MINE} AND status IN :statuses" if statuses else MINE
        rows = self.session.all(
            f"SELECT id, status, at, fired, fired_at, ended_at, body FROM plans WHERE {where} ORDER BY at, id",
            {**self._mine, **({"statuses": list(statuses)} if statuses else {})},
        )
        return [PlanState(id_, s, moment(at), n, time_of(f), time_of(e), body) for id_, s, at, n, f, e, body in rows]

    def put_plans(self, plans: Sequence[PlanState]) -> None:
        """Add plans, or replace their states."""
        rows = [plan_values(self.owner, self.stream, plan) for plan in plans]
        replace = "ON CONFLICT (owner, stream, id) DO UPDATE SET " + ", ".join(
            f"{c} = excluded.{c}" for c in COLUMNS["plans"][3:]
        )
        self.session.insert("plans", COLUMNS["plans"], rows, replace)


def plan_values(owner: OwnerId, stream: str, plan: PlanState) -> Row:
    """A plan as the values of its row."""
    return (owner, stream, plan.id, plan.status, micros(plan.at), plan.fired, micros_of(plan.fired_at),
            micros_of(plan.ended_at), plan.body)  # fmt: skip
