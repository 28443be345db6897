"""A desk that trades options asks its own notes, and finds the answer at least as often as with plain BM25."""

from __future__ import annotations

import pytest

from memtape.documents.index import DocumentIndex
from memtape.documents.index_writer import Document
from memtape.documents.plain_rankings import Bm25Baseline, indexed_passages
from memtape.documents.search import search_index
from tests.documents.desk import NOON
from tests.documents.options_desk import NOTES, QUESTIONS

PLACES = (1, 3, 5)


@pytest.fixture(scope="module")
def index():
    made = DocumentIndex(":memory:")
    made.put("ann", "gold", [Document(path, "note", 3, text) for path, text in NOTES.items()], now=NOON)
    yield made
    made.close()


def answers(passage, question):
    lines = NOTES[passage.path].split("\n")[passage.start_line - 1 : passage.end_line]
    return any(part in line for part in QUESTIONS[question] for line in lines)


def times_found(rank):
    """How many questions are answered by one of the first 1, 3 and 5 passages."""
    found = {question: [answers(passage, question) for passage in rank(question)] for question in QUESTIONS}
    return [sum(any(each[:places]) for each in found.values()) for places in PLACES]


def search(index):
    return lambda question: search_index(index, question, owner="ann", agent="gold", limit=5).hits


def test_the_desk_finds_its_answers_at_least_as_often_as_with_plain_bm25(index):
    plain = Bm25Baseline(indexed_passages(index, "ann", "gold"))
    ours, theirs = times_found(search(index)), times_found(lambda question: plain.rank(question, 5))
    assert all(own >= other for own, other in zip(ours, theirs, strict=True)), (ours, theirs)
    assert ours[0] >= 27 and ours[1] == len(QUESTIONS)


GIVEN_UP = [each for each in QUESTIONS if each.startswith("why did we") and "hourly" not in each]


@pytest.mark.parametrize("question", GIVEN_UP)
def test_why_the_desk_gave_something_up_is_found_first(index, question):
    assert answers(search(index)(question)[0], question)
