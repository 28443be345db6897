"""Real sets and real workspaces: words find at least what plain FTS5 finds, vectors do not make it worse, old decisions are found."""

from __future__ import annotations

import csv
import gzip
import tarfile

import pytest
from typer.testing import CliRunner

from memtape.documents.backtests import similar_reports
from memtape.documents.index import DocumentIndex
from memtape.documents.search import search_index
from memtape.documents.slots import SLOTS
from memtape.documents.sources import DocumentFolder
from memtape.lab.retrieval import evaluate_retrieval, evaluate_span_retrieval
from memtape.plugs.embedder import StaticEmbedder
from memtape.sim.strategies import STRATEGIES
from memtape.surfaces.cli.main import app
from tests.documents.desk import NOON, SHARED

RETRIEVAL, WORKSPACE = SHARED / "retrieval", SHARED / "workspace"
pytestmark = pytest.mark.skipif(not RETRIEVAL.is_dir(), reason="the real sets are not beside the repository")
TOLERANCE = 0.01
# The judgments, the field to search within, and nDCG@10 and recall@10 of FTS5's own ranking of whole documents.
SETS = {
    "fiqa_qa648": ("qrels.tsv", None, 0.573, 0.707), "trading_skills_md": ("qrels.tsv", None, 0.922, 0.895),
    "locomo_turns": ("qrels.tsv", "conversation", 0.441, 0.572), "scifact": ("qrels_test.tsv", None, 0.682, 0.811),
    "financebench_pages": ("qrels.tsv", None, 0.070, 0.148),
}  # fmt: skip
LONG = ("fiqa_qa648", "scifact", "financebench_pages")  # and what takes a minute: tests/soak/test_documents_soak.py
known: dict[tuple[str, str], dict[str, float]] = {}


def figures(name, slot):
    if (name, slot) not in known:
        qrels, within, _, _ = SETS[name]
        folder = RETRIEVAL / name
        embedder = StaticEmbedder() if slot == "hybrid_embeddings" else None
        known[name, slot] = evaluate_retrieval(
            folder / "corpus.jsonl.gz", folder / "queries.jsonl.gz", folder / qrels, slot=slot, embedder=embedder, within=within
        )
    return known[name, slot]


def words_find_enough(name):
    told, (_, _, gain, recall) = figures(name, "sqlite_fts"), SETS[name]
    return told["ndcg@10"] >= gain - TOLERANCE and told["recall@10"] >= recall - TOLERANCE


def vectors_lose_at_most(name, share):
    return figures(name, "hybrid_embeddings")["ndcg@10"] >= figures(name, "sqlite_fts")["ndcg@10"] - share


@pytest.mark.parametrize("name", [name for name in SETS if name not in LONG])
def test_words_find_what_plain_full_text_search_finds(name):
    assert words_find_enough(name), figures(name, "sqlite_fts")


def test_the_static_table_takes_nothing_from_words():
    assert vectors_lose_at_most("locomo_turns", 0.0)


def test_the_first_five_hits_cover_nine_tenths_of_the_passages_that_answer():
    folder = RETRIEVAL / "chunking_spans"
    told = evaluate_span_retrieval(folder, folder / "questions.jsonl.gz")
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
            told = made[name].sync("ann", "gold", [DocumentFolder(root)], now=NOON, embedder=StaticEmbedder())
            assert told.problems == () and told.vectors.complete
        return made[name]

    yield index
    for each in made.values():
        each.close()


def first(index, question, slot, limit=3):
    found = search_index(index, question, owner="ann", agent="gold", slot=slot, embedder=StaticEmbedder(), limit=limit)
    assert found.slot == slot
    return " ".join(hit.path for hit in found.hits)


@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize("question, record", [
    ("why did we drop the HTF confirm filter?", "2026-02-23_drop_htf_confirm_v1"),
    ("why did we stop using the economic calendar?", "2026-02-23_disable_econ_calendar_v1"),
    ("why did we stop using BaseSlope?", "2026-02-14_ablation"),
    ("why did we stop blocking whole FOMC days?", "2026-02-14_fomc_filter_sweep"),
    ("why do we not use a session filter such as no Asia?", "2026-02-14_time_filter_sweep"),
    ("why was a short TTL on segments harmful?", "2026-02-14_ttl_time_stop"),
    ("why did we not use sigma shocks for the shock exit?", "2026-02-14_shock_exits"),
    ("why did we stop using entry-held NoChop with an explicit exit?", "2026-02-14_filters_hyperparam_search"),
    ("why did we stop using zero costs in the backtest?", "2026-02-21_icm_costs_0p07spread_7rt_commission"),
    ("why was a daily loss limit recommended?", "2026-02-15_loss_drawdown_deepdive"),
    ("what did the lookahead audit find?", "2026-02-14_lookahead_audit"),
    ("did debounce and cooldown reduce churn?", "2026-02-21_churn_gate_debounce_cooldown_v1"),
])  # fmt: skip
def test_why_something_is_no_longer_done_is_found_in_its_decision_record(desk, slot, question, record):
    assert f"{record}/DECISION.md" in first(desk("quantlab_gold_decisions"), question, slot)


@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize("question, note", [
    ("what does the RSI gate do?", "RSI-SIGNAL-GATE.md"), ("volume surge rule", "VOLUME-SURGE-GATE.md"),
    ("why is walk forward backtesting inactive?", "WALK-FORWARD-BACKTESTING.md"), ("why did we stop using TradingView webhooks?", "TRADINGVIEW-WEBHOOKS.md"),
    ("why is the HMM regime detection not used?", "HMM-MARKET-REGIME.md"), ("why do we not split the bot into several agents?", "MULTI-AGENT-SPECIALIZATION.md"),
    ("why is the pullback entry mode not active?", "PULLBACK-ENTRY-MODE.md"), ("when should the defensive scalp gate be activated?", "DEFENSIVE-SCALP-GATE.md"),
    ("why are entries not limited to session opens?", "TRADE-WINDOW-LOCK.md"), ("when is the target the high of the previous day?", "RANGE-TP-OPTION.md"),
])  # fmt: skip
def test_a_live_agents_own_notes_are_found_by_what_they_are_about(desk, slot, question, note):
    assert note in first(desk("binance_bot_mit"), question, slot)


def test_the_files_of_a_live_agent_are_told_apart_by_who_stands_behind_them(desk):
    with desk("binance_bot_mit").cache.reading() as connection:
        told = dict(connection.execute("SELECT path, type || ' ' || tier FROM documents").fetchall())
    assert told["memory/TRADING-STRATEGY.md"] == "strategy 1" and told["CLAUDE.md"] == "rules 1"
    assert told["memory/TRADE-LOG.md"] == told["memory/RESEARCH-LOG.md"] == told["memory/WEEKLY-REVIEW.md"] == "log 3"


# --- backtests ----------------------------------------------------------------------------------------------------------


def bars_of(file, start, count, target):
    """Some bars of a market file, as a file of their own."""
    with gzip.open(SHARED / "market" / file, "rt", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))
    target.write_text(
        "\n".join(",".join(row) for row in (rows[0], *rows[1 + start : 1 + start + count])) + "\n", encoding="utf-8"
    )


@pytest.fixture(scope="module")
def backtests(tmp_path_factory):
    """Reports as `memtape sim --report` writes them: two strategies on two stretches of gold and one of bitcoin."""
    folder = tmp_path_factory.mktemp("backtests")
    markets = {
        "gold-2023": ("xauusd_h1_2017_2024.csv.gz", 35_500, "XAUUSD"), "gold-2024": ("xauusd_h1_2017_2024.csv.gz", 41_500, "XAUUSD"),
        "btc-2024": ("btcusdt_perp_1h_2023-01_2025-06.csv.gz", 9_000, "BTC"),
    }  # fmt: skip
    for name, (file, start, symbol) in markets.items():
        bars_of(file, start, 300, folder / f"{name}.csv")
        for strategy in STRATEGIES:
            page = folder / "work" / "reports" / f"{strategy}-{name}" / "report.md"
            page.parent.mkdir(parents=True)
            command = ["sim", "--bars", str(folder / f"{name}.csv"), "--strategy", strategy, "--agent", f"{strategy}-{name}".replace("_", "-"),
                       "--symbol", symbol, "--report", str(page), "--db", str(folder / "sim.db")]  # fmt: skip
            assert CliRunner().invoke(app, command).exit_code == 0
    # In a folder of nothing but these reports, a word that half of the passages contain weighs nothing.
    for day in range(1, 13):
        note = folder / "work" / "journal" / f"2024-03-{day:02d}.md"
        note.parent.mkdir(exist_ok=True)
        note.write_text(f"# Friday notes {day}\n\nWaited for the release and closed half before the weekend.\n", encoding="utf-8")
    index = DocumentIndex(":memory:")
    index.sync("ann", "gold", [DocumentFolder(folder / "work")], now=NOON, embedder=StaticEmbedder())
    yield index
    index.close()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_backtest_most_like_this_one_is_of_the_same_strategy_on_the_same_market(backtests, strategy):
    told = similar_reports(backtests, f"reports/{strategy}-gold-2023/report.md", owner="ann", agent="gold")
    assert told[0].path == f"reports/{strategy}-gold-2024/report.md" and len(told) == 5
    assert told[0].likeness > told[1].likeness


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("slot", SLOTS)
def test_backtests_are_found_by_what_they_tested(backtests, strategy, slot):
    question = f"backtest of {strategy.replace('_', ' ')} on XAUUSD"
    found = search_index(backtests, question, owner="ann", agent="gold", slot=slot, embedder=StaticEmbedder(), limit=2)
    assert {hit.path for hit in found.hits} == {f"reports/{strategy}-gold-{year}/report.md" for year in (2023, 2024)}
    assert {hit.tier for hit in found.hits} == {2}
