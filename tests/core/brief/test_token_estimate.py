"""The estimate of tokens against true counts of cl100k_base, which js-tiktoken 1.0.21 made (see `evidence/cl100k.py`)."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from memtape.core.brief.budget import estimate_tokens

COUNTED: list[tuple[str, int]] = [
    (text, count) for text, count in json.loads((Path(__file__).parents[2] / "golden/cl100k_counts.json").read_text(encoding="utf-8"))
]


def test_whole_briefs_are_estimated_within_a_tenth():
    whole = [(text, count) for text, count in COUNTED if "=== system ===" in text]
    assert len(whole) == 4
    assert all(abs(estimate_tokens(text) / count - 1) <= 0.10 for text, count in whole)


def test_single_lines_are_estimated_within_a_few_tokens():
    lines = [(text, count) for text, count in COUNTED if "\n" not in text]
    assert len(lines) > 20
    assert [text for text, count in lines if abs(estimate_tokens(text) - count) > max(4, 0.15 * count)] == []
    assert abs(sum(estimate_tokens(text) for text, _ in lines) / sum(count for _, count in lines) - 1) <= 0.05


@given(st.text(max_size=80), st.text(max_size=80))
def test_a_longer_text_never_has_fewer_tokens_by_more_than_what_the_seam_joins(one: str, other: str):
    assert estimate_tokens(f"{one}\n{other}") >= max(estimate_tokens(one), estimate_tokens(other)) - 2
    assert estimate_tokens("") == 0
