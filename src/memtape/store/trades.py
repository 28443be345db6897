"""The SQL of trades, in every version in which they were believed, and of discrepancies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from memtape.core.codec import micros, moment
from memtape.core.ledger.trades import TRADE_FIELDS, Trade
from memtape.core.ledger.versions import TradeVersion
from memtape.store.bars import BarTables
from memtape.store.cutoff import MINE, NEVER, FlatPoint
from memtape.store.database import in_batches
from memtape.store.rows import (
    COLUMNS,
    discrepancy_from_row,
    discrepancy_row,
    money_of,
    time_of,
    trade_from_row,
    version_values,
)

if TYPE_CHECKING:
    from memtape.core.events import Discrepancy
    from memtape.core.items import Position
    from memtape.core.ledger.trade_page import TradePage
    from memtape.store.cutoff import Cutoff

# What a page of trades may be sorted by. The double of an amount gives its order only; the amount itself stays exact.
SORT_KEYS = {
    "entry": "entry_at", "exit": "exit_at", "symbol": "symbol", "side": "side",
    "held": "(CAST(holding_minutes AS DOUBLE PRECISION))", "size": "(CAST(entry_size_usd AS DOUBLE PRECISION))",
    "net": "(CAST(net_pnl_usd AS DOUBLE PRECISION))", "r": "(CAST(pnl_r AS DOUBLE PRECISION))",
}  # fmt: skip
TRADE_LIST = ", ".join(TRADE_FIELDS)
LabelTests = dict[str, list[str]]
LabelColumn = Literal["regime", "volatility_regime", "session", "tags"]
PRESENT_TRADE = "kind = 'trade' AND known_to IS NULL"  # the condition of the indexes of labels
FEW_TRADES = 400  # so many are read and sorted as quickly as a page is found in an index
_discrepancy_values = itemgetter(*COLUMNS["discrepancies"])  # a row's values in the order of its columns


def _outcome_condition(page: TradePage, known: str | None) -> str:
    """The outcome as a condition on the net result, and on R where no money is known.

    `known` says which part of the page is read: where the sort key `IS NOT NULL`, where it `IS NULL`, or both (None).
    """
    net, r = SORT_KEYS["net"], SORT_KEYS["r"]
    if page.outcome is None:
        return "1 = 1"
    if page.outcome == "open":
        return "1 = 0"
    if page.outcome == "unknown":
        return f"{net} IS NULL AND {r} IS NULL"
    sign = {"win": ">", "loss": "<"}.get(page.outcome, "=")
    if page.sort == "net" and known is not None:
        # Sorted by net, the outcome is a range of its index.
        return f"{net if known == 'IS NOT NULL' else r} {sign} 0"
    # The sign in front keeps the index of the sort key in use: about half of all trades won, so a page is found soon.
    return f"(+{net} {sign} 0 OR ({net} IS NULL AND +{r} {sign} 0))"


def _date_conditions(page: TradePage) -> list[str]:
    return [f"{page.date}_at {sign} :{name}" for name, sign in (("since", ">="), ("until", "<")) if getattr(page, name)]


def _date_params(page: TradePage) -> dict[str, int]:
    return {name: micros(at) for name in ("since", "until") if (at := getattr(page, name)) is not None}


class TradeTables(BarTables):
    """The trades and discrepancies of one stream of one owner, in one transaction."""

    def boundary(
        self, position: Position, before: datetime, known: datetime, open_at: datetime | None, settle_seconds: int = 0
    ) -> FlatPoint | None:
        """The last moment before another at which the position was flat in every belief since `known`.

        A flip is no such moment, nor is the exit of one trade that is the entry of another, nor an exit that a snapshot followed
        within the settling time: it may show what was held before.
        """
        settling = settle_seconds * 1_000_000
        later_tick = "" if not settling else (
            "AND NOT EXISTS (SELECT 1 FROM items k WHERE k.owner = t.owner AND k.stream = t.stream AND k.kind = 'tick' "
            "AND k.at > t.exit_at AND k.at <= t.exit_at + :settling) "
        )  # fmt: skip
        rows = self.session.all(
            "SELECT t.exit_at, t.settled_at, t.rate FROM trades t "
            "WHERE t.owner = :owner AND t.stream = :stream AND t.symbol = :symbol AND t.leg = :leg AND t.known_to IS NULL "
            "AND t.exit_at < :before AND t.settled_at <= :known AND t.close_cause <> 'flip' AND t.entry_at < t.exit_at "
            "AND t.exit_at <> :open_at AND NOT EXISTS ("
            "SELECT 1 FROM trades n WHERE n.owner = t.owner AND n.stream = t.stream AND n.symbol = t.symbol "
            f"AND n.leg = t.leg AND n.entry_at = t.exit_at) {later_tick}ORDER BY t.exit_at DESC LIMIT 1",
            {**self._mine, "symbol": position[0], "leg": position[1], "before": micros(before), "known": micros(known),
             "open_at": NEVER if open_at is None else micros(open_at)} | ({"settling": settling} if settling else {}),
        )  # fmt: skip
        return FlatPoint(moment(rows[0][0]), moment(rows[0][1]), money_of(rows[0][2])) if rows else None

    def versions(self, position: Position, after: datetime | None) -> list[TradeVersion]:
        """All versions of a position's trades that were entered after a moment."""
        rows = self.session.all(
            f"SELECT known_from, known_to, settled_at, {TRADE_LIST} FROM trades "
            f"WHERE {MINE} AND symbol = :symbol AND leg = :leg AND entry_at > :after",
            {**self._mine, "symbol": position[0], "leg": position[1], "after": NEVER if after is None else micros(after)},
        )
        return [TradeVersion(trade_from_row(row[3:]), moment(row[0]), time_of(row[1]), time_of(row[2])) for row in rows]

    def drop_versions(self, position: Position, after: datetime | None) -> None:
        """Remove the trades and discrepancies of a position after a moment, before it is derived again."""
        at = {**self._mine, "symbol": position[0], "leg": position[1], "after": NEVER if after is None else micros(after)}
        self.session.run(f"DELETE FROM trades WHERE {MINE} AND symbol = :symbol AND leg = :leg AND entry_at > :after", at)
        # Fills that differ from their first delivery are found when they arrive, not when a position is derived.
        self.session.run(
            f"DELETE FROM discrepancies WHERE {MINE} AND symbol = :symbol AND leg = :leg AND at > :after "
            "AND entry_at > :after AND why <> 'fill_differs'",
            at,
        )

    def put_versions(self, versions: Sequence[TradeVersion]) -> None:
        """Add versions of closed trades."""
        self.session.insert("trades", COLUMNS["trades"], [version_values(self.owner, self.stream, v) for v in versions])

    def replace_versions(self, versions: Sequence[TradeVersion]) -> set[str]:
        """Add versions of reported trades. Of a trade that was taken back and comes again, the new version replaces later ones.

        Returns the ids of the trades that had versions before.
        """
        here: set[str] = set()
        for some in in_batches(versions):
            ids = {**self._mine, "ids": [v.trade.id for v in some]}
            here |= {id_ for (id_,) in self.session.all(f"SELECT DISTINCT id FROM trades WHERE {MINE} AND id IN :ids", ids)}
            for version in some:
                if version.trade.id in here:
                    at = {**self._mine, "id": version.trade.id, "at": micros(version.known_from)}
                    self.session.run(f"DELETE FROM trades WHERE {MINE} AND id = :id AND known_from >= :at", at)
                    self.session.run(f"UPDATE trades SET known_to = :at WHERE {MINE} AND id = :id AND known_to > :at", at)
        self.put_versions(versions)
        return here

    def end_versions(self, ids: Sequence[str], known_to: datetime) -> None:
        """Let the present versions of trades end."""
        for some in in_batches(ids):
            self.session.run(
                f"UPDATE trades SET known_to = :to WHERE {MINE} AND id IN :ids AND known_to IS NULL",
                {**self._mine, "ids": some, "to": micros(known_to)},
            )
            # A version that would begin when the trade ends was never believed; the first one stays.
            self.session.run(
                f"DELETE FROM trades WHERE {MINE} AND id IN :ids AND known_from >= :to AND known_from > "
                "(SELECT min(e.known_from) FROM trades e WHERE e.owner = :owner AND e.stream = :stream AND e.id = trades.id)",
                {**self._mine, "ids": some, "to": micros(known_to)},
            )

    def put_discrepancies(self, found: Sequence[Discrepancy]) -> None:
        """Add discrepancies."""
        rows = [_discrepancy_values(discrepancy_row(self.owner, self.stream, each)) for each in found]
        # Two deliveries of a fill at one moment, with other content each, are one discrepancy.
        self.session.insert("discrepancies", COLUMNS["discrepancies"], rows, "ON CONFLICT DO NOTHING")

    def discrepancies(self, limit: int = 1000) -> list[Discrepancy]:
        """The discrepancies that stand, newest first."""
        rows = self.session.all(
            f"SELECT {', '.join(COLUMNS['discrepancies'][2:])} FROM discrepancies "
            f"WHERE {MINE} ORDER BY at DESC, symbol, leg, why, fill_id LIMIT :limit",
            {**self._mine, "limit": limit},
        )
        return [discrepancy_from_row(row) for row in rows]

    def discrepancies_of(self, position: Position, after: datetime | None) -> list[Discrepancy]:
        """The discrepancies of one position after a moment."""
        rows = self.session.all(
            f"SELECT {', '.join(COLUMNS['discrepancies'][2:])} FROM discrepancies "
            f"WHERE {MINE} AND symbol = :symbol AND leg = :leg AND at > :after AND entry_at > :after",
            {**self._mine, "symbol": position[0], "leg": position[1], "after": NEVER if after is None else micros(after)},
        )
        return [discrepancy_from_row(row) for row in rows]

    def reported_between(self, symbol: str, first: datetime, last: datetime) -> list[str]:
        """The keys of the reported trades of a symbol that were held within a time."""
        rows = self.session.all(
            f"SELECT DISTINCT leg FROM trades WHERE {MINE} AND symbol = :symbol AND exit_at > :first AND entry_at < :last "
            "AND quality = 'reported' ORDER BY leg",
            {**self._mine, "symbol": symbol, "first": micros(first), "last": micros(last)},
        )
        return [leg for (leg,) in rows]

    def closed_trades(
        self, known: Cutoff, *, id: str | None = None, symbol: str | None = None, strategy: str | None = None,
        side: str | None = None, since: datetime | None = None,
        limit: int | None = None, after: tuple[datetime, str] | None = None, newest: bool = True, claims: bool = True,
    ) -> list[Trade]:  # fmt: skip
        """Closed trades as believed at a moment, newest entry first or oldest first; `after` continues a page."""
        where = "known_from <= :as_of AND (known_to IS NULL OR known_to > :as_of)"
        params: dict[str, Any] = {"as_of": known.limits()["as_of"]}
        if not claims:
            where += " AND quality <> 'claimed'"
        for name, value in (("id", id), ("symbol", symbol), ("strategy", strategy), ("side", side)):
            if value is not None:
                where, params[name] = f"{where} AND {name} = :{name}", value
        if since is not None:
            where, params["since"] = f"{where} AND exit_at >= :since", micros(since)
        if after is not None:
            sign = "<" if newest else ">"
            where = f"{where} AND (entry_at {sign} :at OR (entry_at = :at AND id > :after_id))"
            params |= {"at": micros(after[0]), "after_id": after[1]}
        order = "entry_at DESC, id" if newest else "entry_at, id"
        rows = self.session.all(
            f"SELECT {TRADE_LIST} FROM trades WHERE {MINE} AND {where} ORDER BY {order}"
            + (f" LIMIT {int(limit)}" if limit is not None else ""),
            {**self._mine, **params},
        )
        return [trade_from_row(row) for row in rows]

    def trades_entered_by(self, decisions: Iterable[str]) -> list[Trade]:
        """The closed trades of the present that some decisions entered."""
        found: list[Trade] = []
        for some in in_batches(sorted(set(decisions))):
            rows = self.session.all(
                f"SELECT {TRADE_LIST} FROM trades WHERE {MINE} AND entry_decision IN :decisions AND known_to IS NULL",
                {**self._mine, "decisions": some},
            )
            found += [trade_from_row(row) for row in rows]
        return found

    def sorted_trades(self, page: TradePage, *, claims: bool = True) -> list[Trade]:
        """The first closed trades of the present that a page admits, in its order up to its end; unknown values come last."""
        labels = self._label_tests(page)
        if labels is None:
            return []
        limit, ids = page.offset + page.limit, self._few_trades(page, labels)
        if ids is None and labels and page.sort == "entry":
            # The index of a label holds its trades in the order of their entries: the first ones fill the page, unless another
            # filter leaves some out.
            count = 2 * limit
            while len(ids := self._first_labelled(page, labels, count)) == count:
                if len(found := self._page_of(page, labels, claims, ids)) >= limit:
                    return found
                count *= 8
        return self._page_of(page, labels, claims, ids)

    def _page_of(self, page: TradePage, labels: LabelTests, claims: bool, ids: list[str] | None) -> list[Trade]:
        """The trades of a page: in the order of the index of its sort key, or, with `ids`, only among these."""
        (where, params), found = self._page_conditions(page, labels, claims), list[Trade]()
        if ids is None:
            limit = page.offset + page.limit
            # Of one symbol or one strategy, the order by entry is the order of its own index.
            indexed = [name for name in ("symbol", "strategy") if page.sort == "entry" and getattr(page, name) is not None]
            key, down = indexed[0] if indexed else SORT_KEYS[page.sort], " DESC" if page.descending else ""
            # The index holds the known values in order, but unknown ones first or last depending on the database.
            for known in ("IS NOT NULL", "IS NULL"):
                if len(found) < limit:
                    order = f"{key}{down}, " if known == "IS NOT NULL" else ""
                    outcome = _outcome_condition(page, known)
                    rows = self.session.all(
                        f"SELECT {TRADE_LIST} FROM trades WHERE {MINE} AND {where} AND {outcome} AND {key} {known} "
                        f"ORDER BY {order}entry_at{down}, id LIMIT {limit - len(found)}",
                        {**self._mine, **params},
                    )
                    found += [trade_from_row(row) for row in rows]
            return found
        for some in in_batches(ids):
            rows = self.session.all(
                f"SELECT {TRADE_LIST} FROM trades WHERE {MINE} AND id IN :ids AND {where} AND {_outcome_condition(page, None)}",
                {**self._mine, **params, "ids": some},
            )
            found += [trade_from_row(row) for row in rows]
        return replace(page, offset=0, limit=page.offset + page.limit).cut(found)

    def _page_conditions(self, page: TradePage, labels: LabelTests, claims: bool) -> tuple[str, dict[str, Any]]:
        """The conditions of a page and their parameters."""
        where, params = "known_to IS NULL" + ("" if claims else " AND quality <> 'claimed'"), dict[str, Any]()
        for name in ("symbol", "strategy", "side"):
            if (value := getattr(page, name)) is not None:
                where, params[name] = f"{where} AND {name} = :{name}", value
        if page.after is not None:
            sign = "<" if page.descending else ">"
            where += f" AND entry_at {sign}= :at AND (entry_at {sign} :at OR id > :after_id)"
            params |= {"at": micros(page.after[0]), "after_id": page.after[1]}
        hint = "" if page.sort == page.date else "+"
        where += "".join(f" AND {hint}{condition}" for condition in _date_conditions(page))
        if labels:
            # The empty text keeps the index of the label out of use: an episode is found by its id.
            tests = " AND ".join(f"(e.{name} || '') IN :{name}" for name in labels)
            where += (
                " AND EXISTS (SELECT 1 FROM episodes e WHERE e.owner = trades.owner AND e.stream = trades.stream "
                f"AND e.id = trades.id AND e.kind = 'trade' AND e.known_to IS NULL AND {tests})"
            )
        return where, {**params, **_date_params(page), **labels}

    def _few_trades(self, page: TradePage, labels: LabelTests) -> list[str] | None:
        """The trades that pass a filter by label or date, if they are few: then only those are read and sorted.

        Of a filter that many trades pass, a page is found soon in the order of the sort key.
        """
        sources: list[str] = []
        if labels:
            tests = " AND ".join(f"{name} IN :{name}" for name in labels)
            sources.append(f"episodes WHERE {MINE} AND {PRESENT_TRADE} AND {tests}")
        if (dates := _date_conditions(page)) and page.sort != page.date:
            sources.append(f"trades WHERE {MINE} AND known_to IS NULL AND {' AND '.join(dates)}")
        for source in sources:
            params = {**self._mine, **_date_params(page), **labels}
            rows = self.session.all(f"SELECT id FROM {source} LIMIT {FEW_TRADES + 1}", params)
            if len(rows) <= FEW_TRADES:
                return [id_ for (id_,) in rows]
        return None

    def _first_labelled(self, page: TradePage, labels: LabelTests, count: int) -> list[str]:
        """The first trades by entry that have all labels of a page."""
        where, params = PRESENT_TRADE, {**self._mine, "count": count}
        down = " DESC" if page.descending else ""
        if page.after is not None:
            where, params["at"] = f"{where} AND entry_at {'<=' if page.descending else '>='} :at", micros(page.after[0])
        rows: list[tuple[int, str]] = []
        # One query for each combination: the index gives the order by entry only among equal values.
        for chosen in product(*labels.values()):
            tests = " AND ".join(f"{name} = :{name}" for name in labels)
            rows += self.session.all(
                f"SELECT entry_at, id FROM episodes WHERE {MINE} AND {where} AND {tests} "
                f"ORDER BY entry_at{down}, id LIMIT :count",
                {**params, **dict(zip(labels, chosen, strict=True))},
            )
        rows.sort(key=lambda row: (-row[0] if page.descending else row[0], row[1]))
        return [id_ for _, id_ in rows[:count]]

    def _label_tests(self, page: TradePage) -> LabelTests | None:
        """The columns of episodes that a page asks about, each with the values that fit; None if no trade can have them."""
        tests: LabelTests = {name: [label] for name, label in page.by_labels.items()}
        if page.tag is not None:
            tests["tags"] = [text for text in self.values_in_use("tags") if page.tag in json.loads(text)]
        return tests if all(tests.values()) else None

    def values_in_use(self, column: LabelColumn) -> list[str]:
        """The different values of a column of the present episodes of trades, in order; tags as lists in JSON.

        Each is found by a step through the index of the column, so the cost grows with the values and not with the trades.
        """
        source = f"episodes WHERE {MINE} AND {PRESENT_TRADE}"
        rows = self.session.all(
            f"WITH RECURSIVE steps(value) AS (SELECT min({column}) FROM {source} UNION ALL "
            f"SELECT (SELECT min({column}) FROM {source} AND {column} > steps.value) FROM steps WHERE steps.value IS NOT NULL) "
            "SELECT value FROM steps WHERE value IS NOT NULL",
            self._mine,
        )
        return [str(value) for (value,) in rows]

    def count_closed(self, claims: bool) -> int:
        """How many closed trades stand, with or without those that the agent alone reports."""
        which = "" if claims else " AND quality <> 'claimed'"
        rows = self.session.all(f"SELECT count(*) FROM trades WHERE {MINE} AND known_to IS NULL{which}", self._mine)
        return int(rows[0][0])

    def last_exit(self, symbol: str) -> datetime | None:
        """When the last trade of a symbol ended, in any version."""
        own = {**self._mine, "symbol": symbol}
        rows = self.session.all(f"SELECT max(exit_at) FROM trades WHERE {MINE} AND symbol = :symbol", own)
        return time_of(rows[0][0])

    def watched_trades(self, symbol: str, t0: datetime, t1: datetime) -> list[tuple[Position, datetime]]:
        """The positions of a symbol whose closed trades bars over [t0, t1) may change, each with the first such entry."""
        rows = self.session.all(
            f"SELECT symbol, leg, min(entry_at) FROM trades WHERE {MINE} AND symbol = :symbol AND known_to IS NULL "
            "AND exit_at > :t0 AND quality NOT IN ('reported', 'claimed') AND (entry_at < :t1 OR quality <> 'fills') "
            "GROUP BY symbol, leg",
            {**self._mine, "symbol": symbol, "t0": micros(t0), "t1": micros(t1)},
        )
        return [((symbol, leg), moment(at)) for symbol, leg, at in rows]

    def drop_trade(self, id: str) -> None:
        """Remove a reported trade for good."""
        self.session.run(f"DELETE FROM trades WHERE {MINE} AND id = :id", {**self._mine, "id": id})

    def drop_differing(self, found: Iterable[Discrepancy]) -> None:
        """Remove discrepancies of fills whose other delivery was taken back with its import."""
        for each in found:
            self.session.run(
                f"DELETE FROM discrepancies WHERE {MINE} AND symbol = :symbol AND leg = :leg AND at = :at AND why = :why "
                "AND fill_id = :fill",
                {**self._mine, "symbol": each.symbol, "leg": each.leg, "at": micros(each.at), "why": each.why,
                 "fill": each.fill_id or ""},
            )  # fmt: skip
