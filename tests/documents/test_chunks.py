"""Documents are cut into passages that can be cited: nothing is lost, lines are exact, what belongs together stays together."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from memtape.documents.chunks import ChunkSizes, approximate_tokens, cut_document
from memtape.documents.citations import lines_of

SMALL = ChunkSizes(target_tokens=40, min_tokens=10, overlap_tokens=8)
pieces = st.sampled_from([
    "# Gold", "## Exits", "### Trail", "Buy the breakout above the prior high.", "- no longs in chop", "", "```", "x = 1", "| a | b |", "|---|---|",
    "| 1 | 2 |", "Stop", "====", "---", "a very long line " * 20, "突破前高后回落。" * 12, "\tindented", "word" * 90, "1. first", "> quoted", "\r",
])  # fmt: skip
documents = st.lists(pieces, max_size=40).map("\n".join)


@given(documents, st.sampled_from([ChunkSizes(), SMALL]))
def test_every_word_of_a_document_is_in_a_passage_and_stands_on_the_lines_it_claims(text, sizes):
    found, lines = cut_document(text, sizes), lines_of(text)
    covered = set()
    for chunk in found:
        assert text[chunk.start : chunk.end] == chunk.text and chunk.text.strip()
        assert 1 <= chunk.start_line <= chunk.end_line <= len(lines)
        stands = "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
        assert "\n".join(lines_of(chunk.text)) in stands
        covered.update(range(chunk.start, chunk.end))
    assert all(text[at].isspace() for at in range(len(text)) if at not in covered)


@given(documents)
def test_the_same_document_gives_the_same_passages(text):
    assert cut_document(text, SMALL) == cut_document(text, SMALL)


@given(documents)
def test_no_passage_is_much_larger_than_a_window(text):
    assert all(approximate_tokens(chunk.text) <= SMALL.target_tokens + 20 for chunk in cut_document(text, SMALL))


def test_a_passage_knows_the_headings_it_lies_under():
    text = (
        "# Manual\n"
        + "intro " * 40
        + "\n## Risk\n"
        + "risk " * 50
        + "\n### Stops\n"
        + "stop " * 50
        + "\n## Entries\n"
        + "entry " * 50
    )
    by_last = {chunk.text.split()[-1]: chunk.headings for chunk in cut_document(text, SMALL)}
    assert by_last["stop"] == ("Manual", "Risk", "Stops")
    assert by_last["entry"] == ("Manual", "Entries")


def test_small_sections_that_follow_one_another_are_one_passage():
    text = "# May\n" + "".join(f"## {day}\nflat\n" for day in range(1, 6))
    (chunk,) = cut_document(text)
    assert (chunk.start_line, chunk.end_line, chunk.headings) == (1, 11, ("May",))


def test_a_section_of_some_size_stands_alone():
    text = "".join(f"## Trade {n}\n" + f"Entry {n} was late because the level had broken. " * 12 + "\n" for n in range(3))
    assert [chunk.headings for chunk in cut_document(text)] == [("Trade 0",), ("Trade 1",), ("Trade 2",)]


def test_windows_of_a_long_section_share_a_border():
    text = "# Log\n" + "\n".join(f"line {n} of the log" for n in range(60))
    found = cut_document(text, SMALL)
    assert len(found) > 3
    for one, next_ in pairwise(found):
        assert one.start_line < next_.start_line <= one.end_line + 1
    assert any(next_.start_line <= one.end_line for one, next_ in pairwise(found))


def test_a_table_and_a_code_block_are_not_torn_where_they_fit():
    prose = "word " * 28
    table = "| symbol | r |\n|---|---|\n| BTC | 2 |\n| ETH | -1 |"
    code = "```\n# not a heading\nrun()\n```"
    text = f"{prose}\n\n{table}\n\n{prose}\n\n{code}\n"
    found = [chunk.text for chunk in cut_document(text, SMALL)]
    assert any(table in chunk for chunk in found) and any(code in chunk for chunk in found)


def test_a_comment_in_a_code_block_is_no_heading():
    found = cut_document("# Setup\n```sh\n# install\nmake\n```\nDone.\n")
    assert [chunk.headings for chunk in found] == [("Setup",)]


def test_front_matter_is_text_and_its_rules_are_no_headings():
    text = "---\nsymbol: BTC\ntags: breakout\n---\n# Trade\nwon\n"
    (chunk,) = cut_document(text)
    assert chunk.start_line == 1 and "symbol: BTC" in chunk.text and chunk.headings == ("Trade",)


def test_underlined_headings_count_too():
    assert cut_document("Risk\n====\nnever more than 1 %\n")[0].headings == ("Risk",)


def test_a_line_longer_than_a_window_is_cut_between_sentences_and_keeps_its_number():
    text = "# A\n" + "The stop was too tight for the range. " * 20
    found = cut_document(text, SMALL)
    assert len(found) > 3 and {chunk.end_line for chunk in found} == {2}
    assert all(chunk.text.rstrip().endswith(".") for chunk in found)


def test_windows_and_old_newlines_count_as_lines():
    assert [(chunk.start_line, chunk.end_line) for chunk in cut_document("# A\r\nb\r\n\r\n# C\rd")] == [(1, 5)]


def test_the_hash_tells_passages_apart_by_words_and_by_headings():
    one, other = cut_document("# A\nsame words\n")[0], cut_document("# B\nsame words\n")[0]
    assert one.hash != other.hash and one.hash == cut_document("# A\nsame words\n")[0].hash
