"""A citation proves what was read, and says how it stands today."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.documents.citations import check_citation, cite, lines_of
from memtape.errors import Invalid

MANUAL = "# Risk\nNever risk more than 1 %.\nStop after three losses.\n\n# Exits\nTrail by 2 ATR.\n"
lines = st.lists(st.sampled_from(["stop", "trail", "", "# Risk", "risk 1 %", "exit at noon"]), min_size=1, max_size=12)


def test_words_that_stand_where_they_stood_are_valid():
    assert check_citation(cite("M.md", MANUAL, 2, 3), MANUAL).verdict == "valid"


def test_words_that_stand_elsewhere_have_moved_and_the_new_lines_are_told():
    told = check_citation(cite("M.md", MANUAL, 2, 3), "new first line\n\n" + MANUAL)
    assert (told.verdict, told.start_line, told.end_line) == ("moved", 4, 5)


def test_of_two_places_the_nearer_one_is_named():
    told = check_citation(cite("M.md", "a\nb\nrule\n", 3, 3), "rule\nx\nx\nrule\nx\nrule\n")
    assert (told.verdict, told.start_line) == ("moved", 4)


def test_an_altered_rule_is_changed():
    assert check_citation(cite("M.md", MANUAL, 2, 2), MANUAL.replace("1 %", "5 %")).verdict == "changed"


def test_a_document_that_is_no_more_is_gone():
    assert check_citation(cite("M.md", MANUAL, 2, 2), None).verdict == "gone"


def test_an_emptied_document_has_changed():
    assert check_citation(cite("M.md", MANUAL, 2, 2), "").verdict == "changed"


def test_newlines_of_another_system_and_spaces_at_line_ends_change_nothing():
    assert check_citation(cite("M.md", MANUAL, 2, 3), MANUAL.replace("\n", " \r\n")).verdict == "valid"


def test_lines_that_are_not_there_cannot_be_cited():
    for first, last in ((0, 1), (2, 1), (1, 99)):
        with pytest.raises(Invalid, match="has no lines"):
            cite("M.md", MANUAL, first, last)


@given(lines, lines, lines)
def test_a_citation_follows_its_lines_wherever_text_is_put_before_them(before, cited, after):
    text = "\n".join((*cited, *after)) + "\n"
    told = cite("M.md", text, 1, len(cited))
    found = check_citation(told, "\n".join((*before, *cited, *after)) + "\n")
    if any(line.strip() for line in cited):
        assert found.verdict in ("valid", "moved")
        now = lines_of("\n".join((*before, *cited, *after)) + "\n")[found.start_line - 1 : found.end_line]
        assert now == lines_of(told.quoted)
