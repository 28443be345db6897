"""Records a stretch of quiet ticks: one log row each, everything else once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from memtape.core.authors import OWNER_AUTHOR, LogAuthor
from memtape.core.codec import decimal_text, time_text
from memtape.core.events import Event
from memtape.core.items import bar_texts, decision_items
from memtape.core.ledger.rounds import KnownBar
from memtape.core.memory.affect import AccountMark
from memtape.core.observed import Bar, Tick
from memtape.core.skills import Agent
from memtape.engine.write.bar_arrivals import sort_out_bars
from memtape.engine.write.batch import Batch
from memtape.engine.write.learn import learn_from_batch
from memtape.engine.write.log_writer import LogWriter, Receipt
from memtape.engine.write.observed_json import observed_json, payload_json, quiet_tick_json
from memtape.engine.write.price_checks import PriceChecks, is_far_off
from memtape.engine.write.quiet_ticks import QuietTicks, carry_over_bars, changes_account
from memtape.store.cutoff import EVERYTHING
from memtape.store.database import Row
from memtape.store.rows import bar_values, item_row, tick_item_values
from memtape.store.tables import Tables


class QuietWriter(LogWriter):
    """Records quiet ticks of one agent in one transaction."""

    def __init__(self, tables: Tables, agent: Agent, now: datetime, author: LogAuthor = OWNER_AUTHOR) -> None:
        super().__init__(tables, agent, now, author)
        self.batch = Batch()
        self._items: list[Row] = []
        self._bars: list[KnownBar] = []  # new ones of this stretch that are not yet in the tables
        self._bar_rows: list[Row] = []
        self._last_bars: dict[str, Bar] = {}  # by symbol

    def record(self, ticks: Iterable[tuple[Tick, datetime]]) -> list[Receipt]:
        """Record the first of these ticks, as far as nothing happens on them; each comes with the time at which it was known.

        Returns their receipts, none if something happens on the very first.
        """
        stretch: QuietTicks | None = None
        receipts: list[Receipt] = []
        for tick, known_at in ticks:
            if changes_account(tick):
                break
            stretch = stretch or QuietTicks(self.tables, self.agent, self.start)
            if not stretch.take(tick, known_at):
                break
            receipts.append(self._take(tick, known_at))
        if stretch is not None and receipts:
            self.tables.put_tick_items(self._items)
            self.tables.put_items(self.batch.item_rows)
            self._write_bars()
            carry_over_bars(self.tables, self.agent, stretch.open, self.batch.bars)
            learn_from_batch(self.tables, self.agent, self.start, self.verified_from, self.batch)
            self.flush()
        return receipts

    def _take(self, tick: Tick, known_at: datetime) -> Receipt:
        """Put a tick into the batch and add its log row: the part of what `Writer.one` does that concerns it."""
        batch, seq, version, events = self.batch, self.seq + 1, self.agent.skill_version, list[Event]()
        owner, stream, at = self.tables.owner, self.tables.stream, time_text(tick.t)
        new: Sequence[Bar] = tick.bars
        if not (continues := self._continues_bars(tick.bars)):
            self._write_bars()
            compared = sort_out_bars(self.tables, tick.bars)
            new, events = compared.new, compared.differing
            events += PriceChecks(self.tables).far_off(tick, (), new, compared.before)
        bars, texts = [KnownBar(bar, known_at) for bar in new], [bar_texts(bar) for bar in new]
        for known, own in zip(bars, texts, strict=True):
            batch.bars.setdefault(known.bar.symbol, []).append(known)
            self._bar_rows.append(bar_values(owner, stream, known.bar, seq, known_at, own))
        self._bars += bars
        if not continues:
            # The bars of the next tick are compared with those that are stored.
            self._write_bars()
        observed = quiet_tick_json(tick, bars, texts) if tick.decision is None else observed_json(tick, bars)
        self._items.append(tick_item_values(owner, stream, "tick", tick.id, seq, tick.t, known_at, version, observed.item))
        for decision in tick.decisions:
            for item in decision_items(decision, tick.id):
                batch.item_rows.append(item_row(owner, stream, item, seq, known_at, version, None))
        if tick.equity is not None:
            body = f'{{"equity":"{decimal_text(tick.equity)}","t":"{at}"}}'
            self._items.append(tick_item_values(owner, stream, "equity", at, seq, tick.t, known_at, version, body))
            batch.account_changes.append(AccountMark(tick.t, at, known_at, float(tick.equity)))
        self.last_tick = tick.t
        batch.known_at = known_at if batch.known_at is None else min(batch.known_at, known_at)
        payload = payload_json(observed.log, events, version, None)
        return self.state(tick.kind, tick.id, tick.t, known_at, payload, tuple(events), flush=False)

    def _continues_bars(self, bars: Sequence[Bar]) -> bool:
        """Returns True if each bar begins after all others of its symbol, and is priced like the last of them."""
        if len(bars) > 1 and len({bar.symbol for bar in bars}) < len(bars):
            return False
        for bar in bars:
            last = self._last_bars.get(bar.symbol)
            if last is None:
                stored = self.tables.last_bar(bar.symbol, None, EVERYTHING)
                last = None if stored is None else stored.bar
            if last is None or last.t1 > bar.t0 or is_far_off(bar.c, last.c):
                return False
        self._last_bars.update({bar.symbol: bar for bar in bars})
        return True

    def _write_bars(self) -> None:
        """Write the new bars so far: what is asked next must find them."""
        self.tables.put_bar_values(self._bars, self._bar_rows)
        self._bars, self._bar_rows, self._last_bars = [], [], {}
