"""Observed values as the log and the items store them: canonical JSON, bars only by count, range and digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memtape.core.codec import canonical, canonical_object, canonical_plain, decimal_text, time_text
from memtape.core.events import Event, event_data
from memtape.core.items import TICK_BODY, BarTexts, delivery_digest
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Bar, Bars, HeldPosition, Observed, Tick


class ObservedJson(NamedTuple):
    """An observed value in canonical JSON."""

    log: str  # as its log row has it: bars only by count, range and digest
    item: str  # as its item has it: of a tick, without the parts that are items of their own


def observed_json(value: Observed, new_bars: Sequence[KnownBar]) -> ObservedJson:
    """What the log and the items store of a value, in canonical JSON."""
    if not isinstance(value, Tick | Bars):
        whole = canonical(value)
        return ObservedJson(whole, whole)
    members: dict[str, str] = {}
    for name in value.__slots__:
        part = getattr(value, name)
        if part is not None and name != "bars":
            members[name] = canonical(part)
    own = canonical_object({name: members[name] for name in TICK_BODY if name in members})
    return ObservedJson(canonical_object(members | {"bars": _bars_json(value.bars, new_bars)}), own)


def quiet_tick_json(tick: Tick, new_bars: Sequence[KnownBar], texts: Sequence[BarTexts] | None = None) -> ObservedJson:
    """The same as `observed_json` for a tick without parts. Its keys are few and fixed, so they are written out sorted.

    `texts` are those of the new bars, if at hand.
    """
    equity = "" if tick.equity is None else f'"equity":"{decimal_text(tick.equity)}",'
    positions = "" if tick.positions is None else f'"positions":{_positions_json(tick.positions)},'
    rates = "" if tick.rates is None else f'"rates":{canonical(tick.rates)},'
    own = f'"id":{canonical(tick.id)},"marks":{canonical(tick.marks)},{positions}{rates}'
    bars, at = _bars_json(tick.bars, new_bars, texts), time_text(tick.t)
    whole = f'{{"bars":{bars},"cash_flows":[],{equity}"fills":[],"funding":[],{own}'
    return ObservedJson(f'{whole}"t":"{at}"}}', f'{{{own}"t":"{at}"}}')


def _positions_json(positions: Mapping[str, Sequence[HeldPosition]]) -> str:
    """The positions of a snapshot in canonical JSON."""
    if len(positions) != 1:
        return canonical(positions)
    [(symbol, several)] = positions.items()
    return f"{{{canonical(symbol)}:[{','.join([_held_json(held) for held in several])}]}}"


def _held_json(held: HeldPosition) -> str:
    """One position in canonical JSON: its few fields, sorted."""
    entry = "" if held.entry_px is None else f'"entry_px":"{decimal_text(held.entry_px)}",'
    leverage = "" if held.leverage is None else f'"leverage":"{decimal_text(held.leverage)}",'
    mark = "" if held.mark is None else f'"mark":"{decimal_text(held.mark)}",'
    rate = "" if held.rate is None else f',"rate":"{decimal_text(held.rate)}"'
    leg = '""' if not held.leg else canonical(held.leg)
    return f'{{{entry}"leg":{leg},{leverage}{mark}"qty":"{decimal_text(held.qty)}"{rate}}}'


def _bars_json(bars: Sequence[Bar], new: Sequence[KnownBar], texts: Sequence[BarTexts] | None = None) -> str:
    """The bars of a value by count, range and digest."""
    if not bars:
        return "[]"
    counted = f'"count":{len(new)},"digest":"{delivery_digest(new, texts)}"'
    if not new:
        return f"{{{counted}}}"
    if len(new) == 1:
        first, last = new[0].bar.t0, new[0].bar.t1
    else:
        first, last = min([known.bar.t0 for known in new]), max([known.bar.t1 for known in new])
    return f'{{{counted},"first":"{time_text(first)}","last":"{time_text(last)}"}}'


def payload_json(observed: str, concluded: Sequence[Event], skill_version: int, batch: str | None) -> str:
    """A whole payload in canonical JSON, around the observed value. Its keys are fixed, so they are written out sorted."""
    of_import = f'"batch":"{batch}",' if batch else ""
    events = canonical_plain([event_data(event) for event in concluded]) if concluded else "[]"
    return f'{{{of_import}"concluded":{events},"observed":{observed},"skill_version":{skill_version}}}'
