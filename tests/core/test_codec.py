"""Canonical JSON is written in one pass, and is the JSON of the plain form, byte for byte."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.codec import canonical, canonical_object, canonical_plain, plain, time_text
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Bar, HeldPosition, Tick
from memtape.engine.write.writer import observed_json, quiet_tick_json
from tests.effort import examples


@dataclass(frozen=True)
class Pair:
    zeta: Any
    alpha: Any


@dataclass(frozen=True)
class One:
    only: Any


class Named(NamedTuple):
    first: Any
    second: Any


moments = st.datetimes(datetime(1970, 1, 2), datetime(2199, 1, 1)).map(lambda t: t.replace(tzinfo=timezone(timedelta(hours=3))))
atoms = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
    | st.decimals(allow_nan=False, allow_infinity=False) | moments
)  # fmt: skip
values = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(st.text(max_size=4), inner, max_size=3) | st.builds(Pair, inner, inner) | st.builds(One, inner)
    | st.builds(Named, inner, inner),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=examples(150, 5_000))
@given(value=values)
def test_one_pass_gives_the_json_of_the_plain_form(value: Any) -> None:
    expected = json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    assert canonical(value) == canonical_plain(plain(value)) == expected


def test_keys_that_are_no_text_are_sorted_as_text() -> None:
    assert canonical({10: "a", 9: "b"}) == canonical_plain(plain({10: "a", 9: "b"})) == '{"10":"a","9":"b"}'
    assert canonical({7: 1}) == '{"7":1}'


def test_an_object_of_written_members_is_sorted_and_quoted() -> None:
    assert canonical_object({'b"': "1", "a": "[]"}) == '{"a":[],"b\\"":1}'


def test_a_moment_has_one_text_in_every_zone() -> None:
    noon = datetime(2026, 3, 2, 12, tzinfo=UTC)
    assert time_text(noon) == time_text(noon.astimezone(timezone(timedelta(hours=9)))) == "2026-03-02T12:00:00Z"


prices = st.decimals("0.01", 10_000, places=4)
held = st.builds(HeldPosition, qty=prices, entry_px=prices | st.none(), mark=prices | st.none(), leg=st.sampled_from(["", 'L"1']))


@settings(max_examples=examples(60, 2_000))
@given(
    positions=st.none() | st.dictionaries(st.sampled_from(["BTC", "ÄTH"]), st.tuples(held)),
    marks=st.dictionaries(st.sampled_from(["BTC", "ÄTH"]), prices), equity=st.none() | prices | st.just(Decimal(0)),
    rates=st.none() | st.dictionaries(st.just("BTC"), prices), bars=st.integers(0, 2),
)  # fmt: skip
def test_a_quiet_tick_is_written_like_any_other(positions: Any, marks: Any, equity: Any, rates: Any, bars: int) -> None:
    t, px = datetime(2026, 3, 2, 12, tzinfo=UTC), Decimal(5)
    some = tuple(Bar(symbol=f"S{n}", t0=t - timedelta(hours=1), t1=t, o=px, h=px, l=px, c=px) for n in range(bars))
    tick = Tick(id='t"1', t=t, positions=positions, marks=marks, equity=equity, rates=rates, bars=some)
    for new in (some, some[:1]):
        known = [KnownBar(bar, t) for bar in new]
        assert quiet_tick_json(tick, known) == observed_json(tick, known)
