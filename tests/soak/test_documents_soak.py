"""The large retrieval sets, and five hundred indexers killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from memtape.compose import embedder
from memtape.lab.retrieval import evaluate_retrieval
from tests.documents.killing import killed
from tests.documents.test_real_sets import LONG, RETRIEVAL, SETS, figures, vectors_lose_at_most, words_find_enough

ROUNDS, BATCH = 500, 50
real = pytest.mark.skipif(not RETRIEVAL.is_dir(), reason="the real sets are not beside the repository")


@real
@pytest.mark.parametrize("name", LONG)
def test_words_find_what_plain_full_text_search_finds_in_the_large_sets(name: str) -> None:
    assert words_find_enough(name), figures(name, "sqlite_fts")


@real
@pytest.mark.parametrize(("name", "may_lose"), [
    ("fiqa_qa648", 0.0), ("scifact", 0.0), ("trading_skills_md", 0.02), ("financebench_pages", 0.02),
])  # fmt: skip
def test_the_static_table_takes_little_from_words_in_the_large_sets(name: str, may_lose: float) -> None:
    assert vectors_lose_at_most(name, may_lose), figures(name, "hybrid_embeddings")


@real
@pytest.mark.parametrize(("name", "gain"), [
    ("locomo_turns", 0.01), ("fiqa_qa648", 0.07), ("trading_skills_md", -0.01), ("scifact", 0.03), ("financebench_pages", -0.01),
])  # fmt: skip
def test_the_small_transformer_finds_what_words_miss(name: str, gain: float) -> None:
    """Slow: some 40 minutes on one core for SciFact and the pages of FinanceBench."""
    qrels, within, _, _ = SETS[name]
    model, folder = embedder("minilm"), RETRIEVAL / name
    files = (folder / "corpus.jsonl.gz", folder / "queries.jsonl.gz", folder / qrels)
    found = evaluate_retrieval(*files, slot="hybrid_embeddings", embedder=model, within=within)
    print(name, found)
    assert found["ndcg@10"] >= figures(name, "sqlite_fts")["ndcg@10"] + gain, found


@pytest.mark.parametrize("batch", range(ROUNDS // BATCH))
def test_five_hundred_indexers_are_killed_and_the_index_is_the_old_one_or_the_new_one(tmp_path: Path, batch: int) -> None:
    tally = killed(tmp_path, BATCH, seed=batch)
    print(dict(tally))
    assert tally["killed"] + tally["ended"] == BATCH
    assert tally["killed"] and tally["old"], "no indexer was killed before it was done"
