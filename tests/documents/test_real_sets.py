"""Real sets and real workspaces: words find at least what plain FTS5 finds, vectors do not make it worse, old decisions are found."""

from __future__ import annotations

import os
import tarfile

import pytest

from memtape.documents.index import DocumentIndex
from memtape.documents.search import SLOTS, search
from memtape.documents.sources import Source
from memtape.lab.retrieval import evaluate, evaluate_spans
from memtape.plugs.embedder import StaticEmbedder
from tests.documents.desk import NOON, SHARED

RETRIEVAL, WORKSPACE = SHARED / "retrieval", SHARED / "workspace"
pytestmark = pytest.mark.skipif(not RETRIEVAL.is_dir(), reason="the real sets are not beside the repository")
long = pytest.mark.skipif(os.environ.get("MEMTAPE_SOAK") != "1", reason="a long test: set MEMTAPE_SOAK=1")
TOLERANCE = 0.01
# The judgments, the field to search within, and nDCG@10 and recall@10 of FTS5's own ranking of whole documents.
SETS = {
    "fiqa_qa648": ("qrels.tsv", None, 0.573, 0.707), "trading_skills_md": ("qrels.tsv", None, 0.922, 0.895),
    "locomo_turns": ("qrels.tsv", "conversation", 0.441, 0.572), "scifact": ("qrels_test.tsv", None, 0.682, 0.811),
    "financebench_pages": ("qrels.tsv", None, 0.070, 0.148),
}  # fmt: skip
LONG = ("scifact", "financebench_pages")
known: dict[tuple[str, str], dict[str, float]] = {}


def figures(name, slot):
    if (name, slot) not in known:
        qrels, within, _, _ = SETS[name]
        folder = RETRIEVAL / name
        embedder = StaticEmbedder() if slot == "hybrid_embeddings" else None
        known[name, slot] = evaluate(folder / "corpus.jsonl.gz", folder / "queries.jsonl.gz", folder / qrels, slot=slot, embedder=embedder, within=within)
    return known[name, slot]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[long] if name in LONG else []) for name in SETS])
def test_words_find_what_plain_full_text_search_finds(name):
    told, (_, _, gain, recall) = figures(name, "sqlite_fts"), SETS[name]
    assert told["ndcg@10"] >= gain - TOLERANCE and told["recall@10"] >= recall - TOLERANCE


@pytest.mark.parametrize("name, may_lose", [
    ("fiqa_qa648", 0.0), ("locomo_turns", 0.0), pytest.param("scifact", 0.0, marks=[long]), pytest.param("trading_skills_md", 0.02, marks=[long]),
    pytest.param("financebench_pages", 0.02, marks=[long]),
])  # fmt: skip
def test_the_static_table_adds_to_words_or_at_least_takes_little_from_them(name, may_lose):
    assert figures(name, "hybrid_embeddings")["ndcg@10"] >= figures(name, "sqlite_fts")["ndcg@10"] - may_lose


def test_the_first_five_hits_cover_nine_tenths_of_the_passages_that_answer():
    folder = RETRIEVAL / "chunking_spans"
    told = evaluate_spans(folder, folder / "questions.jsonl.gz")
    assert told["span_recall@5"] >= 0.9 and told["span_precision@5"] >= 0.03 and told["questions"] == 317


# --- workspaces ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Indexes of real workspaces, made once."""
    made: dict[str, DocumentIndex] = {}

    def index(name):
        if name not in made:
            root = tmp_path_factory.mktemp(name)
            with tarfile.open(WORKSPACE / f"{name}.tar.gz") as archive:
                archive.extractall(root, filter="data")
            made[name] = DocumentIndex(":memory:")
            told = made[name].sync("ann", "gold", [Source(root)], now=NOON, embedder=StaticEmbedder())
            assert told.problems == () and told.vectors.complete
        return made[name]

    yield index
    for each in made.values():
        each.close()


def first(index, question, slot, limit=3):
    found = search(index, question, owner="ann", agent="gold", slot=slot, embedder=StaticEmbedder(), limit=limit)
    assert found.slot == slot
    return " ".join(hit.path for hit in found.hits)


@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize("question, record", [
    ("why did we drop the HTF confirm filter?", "2026-02-23_drop_htf_confirm_v1/DECISION.md"),
    ("why did we stop using the economic calendar?", "2026-02-23_disable_econ_calendar_v1/DECISION.md"),
    ("why was the time stop rejected?", "time_stop"),
    ("what did the lookahead audit find?", "2026-02-14_lookahead_audit/DECISION.md"),
    ("did debounce and cooldown reduce churn?", "churn"),
])  # fmt: skip
def test_why_a_filter_is_no_longer_used_is_found_in_the_decision_records(desk, slot, question, record):
    assert record in first(desk("quantlab_gold_decisions"), question, slot)


@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize("question, note", [("what does the RSI gate do?", "RSI-SIGNAL-GATE.md"), ("volume surge rule", "VOLUME-SURGE-GATE.md"), ("walk forward backtesting", "WALK-FORWARD-BACKTESTING.md")])
def test_a_live_agents_own_notes_are_found_by_what_they_are_about(desk, slot, question, note):
    assert note in first(desk("binance_bot_mit"), question, slot)


def test_the_files_of_a_live_agent_are_told_apart_by_who_stands_behind_them(desk):
    with desk("binance_bot_mit").cache.reading() as connection:
        told = dict(connection.execute("SELECT path, type || ' ' || tier FROM documents").fetchall())
    assert told["memory/TRADING-STRATEGY.md"] == "strategy 1" and told["CLAUDE.md"] == "rules 1"
    assert told["memory/TRADE-LOG.md"] == told["memory/RESEARCH-LOG.md"] == told["memory/WEEKLY-REVIEW.md"] == "log 3"
