"""Records a stretch of quiet ticks: one log row each, everything else once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from memtape.core.authors import OWNER_AUTHOR, LogAuthor
from memtape.core.events import Event
from memtape.core.items import items_of_quiet
from memtape.core.ledger.rounds import KnownBar
from memtape.core.memory.learn import account_change
from memtape.core.observed import Bar, Tick
from memtape.core.skills import Agent
from memtape.engine.write.bar_arrivals import sort_out_bars
from memtape.engine.write.batch import Batch
from memtape.engine.write.learn import learn_from_batch
from memtape.engine.write.log_writer import LogWriter, Receipt
from memtape.engine.write.observed_json import payload_json, quiet_tick_json
from memtape.engine.write.price_checks import PriceChecks, is_far_off
from memtape.engine.write.quiet_ticks import QuietTicks, carry_over_bars, has_parts
from memtape.store.cutoff import EVERYTHING
from memtape.store.rows import item_row
from memtape.store.tables import Tables


class QuietWriter(LogWriter):
    """Records quiet ticks of one agent in one transaction."""

    def __init__(self, tables: Tables, agent: Agent, now: datetime, author: LogAuthor = OWNER_AUTHOR) -> None:
        super().__init__(tables, agent, now, author)
        self.batch = Batch()

    def record(self, ticks: Iterable[tuple[Tick, datetime]]) -> list[Receipt]:
        """Record the first of these ticks, as far as nothing happens on them; each comes with the time at which it was known.

        Returns their receipts, none if something happens on the very first.
        """
        stretch: QuietTicks | None = None
        receipts: list[Receipt] = []
        for tick, known_at in ticks:
            if has_parts(tick):
                break
            stretch = stretch or QuietTicks(self.tables, self.agent, self.start)
            if not stretch.take(tick, known_at):
                break
            receipts.append(self._take(tick, known_at))
        if stretch is not None and receipts:
            self.tables.put_items(self.batch.item_rows)
            carry_over_bars(self.tables, self.agent, stretch.open, self.batch.bars)
            learn_from_batch(self.tables, self.agent, self.start, self.verified_from, self.batch)
            self.flush()
        return receipts

    def _take(self, tick: Tick, known_at: datetime) -> Receipt:
        """Put a tick into the batch and add its log row: the part of what `Writer.one` does that concerns it."""
        batch, seq, events = self.batch, self.seq + 1, list[Event]()
        new: Sequence[Bar] = tick.bars
        if not self._continues_bars(tick.bars):
            compared = sort_out_bars(self.tables, tick.bars)
            new, events = compared.new, compared.differing
            events += PriceChecks(self.tables).far_off(tick, (), new, compared.before)
        bars = [KnownBar(bar, known_at) for bar in new]
        for known in bars:
            batch.bars.setdefault(known.bar.symbol, []).append(known)
        self.tables.put_bars(bars, seq)
        observed = quiet_tick_json(tick, bars)
        for item in items_of_quiet(tick):
            body = observed.item if item.kind == "tick" else None
            row = item_row(self.tables.owner, self.tables.stream, item, seq, known_at, self.agent.skill_version, None, body)
            batch.item_rows.append(row)
            if item.kind == "equity":
                batch.account_changes.append(account_change(item.kind, item.body, item.key, known_at))
        self.last_tick = tick.t
        batch.known_at = known_at if batch.known_at is None else min(batch.known_at, known_at)
        payload = payload_json(observed.log, events, self.agent.skill_version, None)
        return self.state(tick.kind, tick.id, tick.t, known_at, payload, tuple(events), flush=False)

    def _continues_bars(self, bars: Sequence[Bar]) -> bool:
        """Returns True if each bar begins after all others of its symbol, and is priced like the last of them."""
        lasts = [self.tables.last_bar(bar.symbol, None, EVERYTHING) for bar in bars]
        return len({bar.symbol for bar in bars}) == len(bars) and all(
            last is not None and last.bar.t1 <= bar.t0 and not is_far_off(bar.c, last.bar.c)
            for bar, last in zip(bars, lasts, strict=True)
        )
