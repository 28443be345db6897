"""Canonical JSON is written in one pass, and is the JSON of the plain form, byte for byte."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.codec import canonical, canonical_object, canonical_plain, plain, time_text
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
