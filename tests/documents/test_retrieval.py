"""How retrieval is measured: the figures are the known formulas, and a set is judged whole."""

from __future__ import annotations

import gzip
import json
import math

import pytest

from memtape.documents.plain_rankings import IndexedPassage
from memtape.errors import Invalid
from memtape.lab.retrieval import (
    evaluate_retrieval,
    evaluate_span_retrieval,
    first_answer,
    ndcg,
    recall_at,
    reciprocal_rank,
    span_overlap,
)
from tests.documents.desk import Letters, write

CORPUS = [
    {"_id": "d1", "title": "Stops", "text": "A stop was moved away and the loss grew."}, {"_id": "d2", "title": "", "text": "Gold broke out above the prior high."},
    {"_id": "d3", "title": "Funding", "text": "Funding flipped negative."}, {"_id": "d4", "title": "Only a title", "text": ""},
]  # fmt: skip
QUERIES = [
    {"_id": "q1", "text": "gold above the high"},
    {"_id": "q2", "text": "who moved the stop?"},
    {"_id": "q3", "text": "never judged"},
]


def lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def beir(tmp_path):
    write(
        tmp_path,
        {
            "corpus.jsonl": lines(CORPUS),
            "queries.jsonl": lines(QUERIES),
            "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\td2\t1\nq2\td1\t2\nq2\td3\t0\n",
        },
    )
    return tmp_path / "corpus.jsonl", tmp_path / "queries.jsonl", tmp_path / "qrels.tsv"


def test_a_set_is_judged_by_the_queries_that_somebody_judged(beir):
    told = evaluate_retrieval(*beir)
    assert list(told) == ["ndcg@10", "recall@10", "mrr@10", "queries", "p50_ms", "p95_ms"]
    assert (told["ndcg@10"], told["recall@10"], told["mrr@10"], told["queries"]) == (1.0, 1.0, 1.0, 2)


def test_a_gzipped_set_and_trec_judgments_are_read_alike(beir, tmp_path):
    corpus, queries, _ = beir
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(corpus.read_bytes()))
    (tmp_path / "trec.txt").write_text("q1 0 d2 1\nq2 0 d1 2\n")
    assert evaluate_retrieval(tmp_path / "c.jsonl.gz", queries, tmp_path / "trec.txt")["ndcg@10"] == 1.0


def test_a_query_is_asked_only_within_its_own_conversation(tmp_path):
    corpus = [{"_id": f"{side}{n}", "text": f"gold note {n}", "talk": side} for side in "ab" for n in range(3)]
    queries = [{"_id": "q", "text": "gold note 1", "talk": "b"}]
    write(tmp_path, {"c": lines(corpus), "q": lines(queries), "r": "q\ta1\t1\nq\tb1\t1\n"})
    files = tmp_path / "c", tmp_path / "q", tmp_path / "r"
    assert evaluate_retrieval(*files, within="talk")["recall@10"] == 0.5
    assert evaluate_retrieval(*files)["recall@10"] == 1.0
    with pytest.raises(Invalid, match="within"):
        evaluate_retrieval(*files, within="speaker")


def test_a_title_alone_can_be_found(beir, tmp_path):
    (tmp_path / "qrels.tsv").write_text("q1\td4\t1\n")
    write(tmp_path, {"queries.jsonl": lines([{"_id": "q1", "text": "only a title"}])})
    assert evaluate_retrieval(*beir)["mrr@10"] == 1.0


@pytest.mark.parametrize("name, text, said", [
    ("corpus.jsonl", "{broken\n", "not a record"), ("corpus.jsonl", '["a"]\n', "not a record"), ("queries.jsonl", lines(QUERIES[:1]), "judged but not in the queries"),
    ("qrels.tsv", "query-id\tcorpus-id\tscore\n", "has no relevant document"), ("qrels.tsv", "q1\td2\t1\nq2 d1\n", "not a judgment"),
])  # fmt: skip
def test_files_that_are_no_set_are_refused_with_the_line(beir, name, text, said):
    (beir[0].parent / name).write_text(text)
    with pytest.raises(Invalid, match=said):
        evaluate_retrieval(*beir)


def test_a_missing_file_is_told(beir, tmp_path):
    with pytest.raises(Invalid, match="cannot be read"):
        evaluate_retrieval(tmp_path / "none", *beir[1:])


def test_a_broken_embedder_gives_no_figures_rather_than_those_of_another_slot(beir):
    with pytest.raises(Invalid, match="refused"):
        evaluate_retrieval(*beir, slot="hybrid_embeddings", embedder=Letters(broken=True))
    with pytest.raises(Invalid, match="no embedder"):
        evaluate_retrieval(*beir, slot="hybrid_embeddings")
    assert evaluate_retrieval(*beir, slot="hybrid_embeddings", embedder=Letters())["queries"] == 2


def test_gain_is_linear_and_counts_less_further_down():
    judged = {"a": 2.0, "b": 1.0}
    assert ndcg(["a", "b"], judged) == 1.0
    assert ndcg(["b", "a"], judged) == pytest.approx((1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3)))
    assert ndcg(["x"] * 10 + ["a"], judged) == 0.0
    assert (recall_at(["x", "a"], judged), reciprocal_rank(["x", "a"], judged), reciprocal_rank(["x"], judged)) == (0.5, 0.5, 0.0)


def test_spans_count_characters_once_however_often_they_are_returned():
    assert span_overlap([("a", 0, 100), ("a", 0, 100)], [("a", 50, 150)]) == (0.5, 0.5)
    assert span_overlap([], [("a", 0, 10)]) == (0.0, 0.0)
    assert span_overlap([("b", 0, 10)], [("a", 0, 10)]) == (0.0, 0.0)


def test_the_passage_that_answers_a_question_is_covered(tmp_path):
    answer = "The stop was moved away from the range and the loss grew to 4R."
    page = (
        "# Log\n"
        + "\n\n".join(f"## Day {n}\n" + "Nothing of note happened on this quiet day. " * 30 for n in range(8))
        + f"\n\n## Day 9\n{answer}\n"
    )
    folder = write(tmp_path / "docs", {"log.md": page})
    start = page.index(answer)
    question = {
        "_id": "1",
        "path": "log.md",
        "text": "why did the loss grow to 4R?",
        "references": [{"start_char": start, "end_char": start + len(answer)}],
    }
    write(tmp_path, {"questions.jsonl": lines([question])})
    told = evaluate_span_retrieval(folder, tmp_path / "questions.jsonl")
    assert told["span_recall@5"] == 1.0 and 0 < told["span_precision@5"] < 1 and told["questions"] == 1


def test_baselines_rank_the_same_passages_and_are_judged_by_the_same_figures(beir):
    told = evaluate_retrieval(*beir, baselines=True)
    for name in ("baseline_fts5", "baseline_bm25"):
        assert (told[name]["ndcg@10"], told[name]["queries"]) == (1.0, 2)


def test_only_bm25_with_path_and_headings_finds_a_note_by_its_file_name(tmp_path):
    folder = write(tmp_path / "docs", {"funding.md": "Paid too much to hold.\n", "other.md": "Nothing of note.\n"})
    question = {"_id": "1", "path": "funding.md", "text": "funding", "references": [{"start_line": 1, "end_line": 1}]}
    write(tmp_path, {"questions.jsonl": lines([question])})
    told = evaluate_span_retrieval(folder, tmp_path / "questions.jsonl", baselines=True)
    assert (told["hit@1"], told["baseline_fts5"]["hit@1"], told["baseline_bm25"]["hit@1"]) == (1, 0, 1)


def test_a_hit_counts_from_the_place_of_the_first_passage_with_an_answering_line():
    passages = [IndexedPassage(path, first, last, 0, 1, "", "") for path, first, last in [("a", 1, 9), ("b", 1, 4), ("b", 5, 9)]]
    assert first_answer(passages, "b", [(5, 6)]) == 3
    assert first_answer(passages, "b", [(4, 5)]) == 2
    assert first_answer(passages, "c", [(1, 1)]) == 0


def test_every_second_question_can_be_kept_aside(tmp_path):
    folder = write(tmp_path / "docs", {"a.md": "gold\n", "b.md": "oil\n"})
    asked = [("1", "a.md", "gold"), ("2", "b.md", "gold"), ("3", "a.md", "gold")]
    records = [
        {"_id": n, "path": path, "text": text, "references": [{"start_line": 1, "end_line": 1}]} for n, path, text in asked
    ]
    write(tmp_path, {"questions.jsonl": lines(records)})

    def hits(rows):
        told = evaluate_span_retrieval(folder, tmp_path / "questions.jsonl", rows=rows)
        return told["hit@1"], told["questions"]

    assert (hits("all"), hits("odd"), hits("even")) == ((2, 3), (2, 2), (0, 1))
    with pytest.raises(Invalid, match="rows"):
        hits("third")
