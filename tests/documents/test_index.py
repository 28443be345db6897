"""The index follows the files: it reads what changed, forgets what went, and never shows a part of anything."""

from __future__ import annotations

import math
import os
import threading
from datetime import timedelta

import pytest

import memtape
from memtape.documents import index as index_module
from memtape.documents import sources, text_files, vector_matrix
from memtape.documents.backtests import similar_reports
from memtape.documents.cache import SHARED_SCOPE
from memtape.documents.index import DocumentIndex, PendingFiles
from memtape.documents.index_writer import Document
from memtape.documents.search import search_index
from memtape.documents.sources import DocumentFolder, SkippedFile
from memtape.errors import Conflict, Damaged, Invalid, Unknown
from memtape.sim.strategies import STRATEGIES
from memtape.surfaces.cli.simulation import simulate
from tests.documents.desk import NOON, Letters, put, sync, write
from tests.documents.killing import killed
from tests.faults.processes import fork

FILES = {
    "SOUL.md": "# Soul\nNever move a stop away.\n", "journal/1.md": "# Monday\nGold broke out, won 2R.\n",
    "memory/TRADE-LOG.md": "# Log\nBTC short, stopped out by noise.\n",
}  # fmt: skip


@pytest.fixture
def index(tmp_path):
    made = DocumentIndex(tmp_path / "documents.db")
    yield made
    made.close()


@pytest.fixture
def work(tmp_path):
    return write(tmp_path / "work", FILES)


@pytest.fixture
def bodies(monkeypatch):
    """The paths of all files whose body is read."""
    read, known = text_files.read_text_file, []
    monkeypatch.setattr(text_files, "read_text_file", lambda seen: known.append(seen.path) or read(seen))
    return known


def found(index, question, agent="gold", **more):
    return [hit.path for hit in search_index(index, question, owner="ann", agent=agent, **more).hits]


# --- following files ----------------------------------------------------------------------------------------------------


def test_a_workspace_is_indexed_and_found_with_type_tier_and_lines(index, work):
    told = sync(index, work)
    assert (told.documents, told.chunks, told.read, told.added, told.problems) == (3, 3, 3, 3, ())
    (hit,) = search_index(index, "move a stop away", owner="ann", agent="gold", types=["rules"]).hits
    assert (hit.path, hit.start_line, hit.end_line, hit.source_type, hit.tier) == ("SOUL.md", 1, 2, "rules", 1)


def test_unchanged_files_are_not_read_again(index, work, bodies):
    sync(index, work)
    bodies.clear()
    told = sync(index, work)
    assert bodies == [] and (told.read, told.added, told.changed, told.removed, told.documents) == (0, 0, 0, 0, 3)


def test_only_the_file_that_changed_is_read_and_indexed_anew(index, work, bodies):
    sync(index, work)
    bodies.clear()
    write(work, {"journal/1.md": "# Monday\nSilver broke down.\n"})
    told = sync(index, work)
    assert bodies == ["journal/1.md"] and (told.changed, told.added) == (1, 0)
    assert found(index, "silver") == ["journal/1.md"] and found(index, "gold") == []


def test_a_file_of_the_same_size_with_its_time_set_back_is_still_seen_to_have_changed(index, work):
    sync(index, work)
    file = work / "journal/1.md"
    before = file.stat()
    file.write_text(FILES["journal/1.md"].replace("Gold", "Lead"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    sync(index, work)
    assert found(index, "lead") == ["journal/1.md"]


def test_a_touched_file_is_read_but_not_indexed_anew(index, work):
    sync(index, work)
    os.utime(work / "SOUL.md")
    told = sync(index, work)
    assert (told.read, told.changed, told.added) == (1, 0, 0)
    assert sync(index, work).read == 0


def test_a_deleted_file_is_forgotten(index, work):
    sync(index, work)
    (work / "journal/1.md").unlink()
    assert sync(index, work).removed == 1
    assert found(index, "gold") == [] and index.health("ann", "gold").documents == 2


def test_a_renamed_file_keeps_its_vectors(index, work):
    embedder = Letters()
    sync(index, work, embedder=embedder)
    embedder.asked.clear()
    (work / "journal/1.md").rename(work / "journal/2026-05-11.md")
    told = sync(index, work, embedder=embedder)
    assert (told.added, told.removed, told.vectors.made, embedder.asked) == (1, 1, 0, [])
    assert found(index, "gold", slot="hybrid_embeddings", embedder=embedder)[0] == "journal/2026-05-11.md"


def test_only_passages_that_are_new_are_embedded(index, work):
    embedder = Letters()
    parts = [f"## Day {n}\n" + f"The trade of day {n} went well because the level held. " * 10 for n in range(5)]
    write(work, {"memory/long.md": "\n".join(parts)})
    sync(index, work, embedder=embedder)
    embedder.asked.clear()
    write(work, {"memory/long.md": "\n".join((*parts[:4], parts[4] + "But one was lost."))})
    sync(index, work, embedder=embedder)
    assert len(embedder.asked) == 1 and "But one was lost" in embedder.asked[0]


def test_reindexing_reads_everything_anew(index, work, bodies):
    sync(index, work)
    bodies.clear()
    assert sync(index, work, rebuild=True).changed == 3 and len(bodies) == 3


def test_a_workspace_that_is_not_there_leaves_the_index_as_it_was(index, work):
    sync(index, work)
    work.rename(work.parent / "unmounted")
    with pytest.raises(Invalid, match="is not a folder"):
        sync(index, work)
    assert found(index, "gold") == ["journal/1.md"]


def test_what_could_not_be_read_is_told_until_it_is_mended(index, work):
    (work / "broken.md").write_bytes(b"\x00\x01")
    assert sync(index, work).problems == (SkippedFile("broken.md", "not text"),)
    assert index.health("ann", "gold").problems == (SkippedFile("broken.md", "not text"),)
    (work / "broken.md").write_text("mended")
    assert sync(index, work).problems == ()


def test_health_says_when_the_index_was_last_in_step(index, work):
    assert index.health("ann", "gold", now=NOON).last_sync is None
    sync(index, work)
    told = index.health("ann", "gold", now=NOON + timedelta(minutes=5))
    assert (told.last_sync, told.documents, told.chunks, told.stale_seconds, told.roots) == (NOON, 3, 3, 300.0, (str(work),))


def test_a_file_that_is_no_text_is_not_read_again_until_it_looks_different(index, work, bodies):
    (work / "broken.md").write_bytes(b"\x00\x01")
    sync(index, work)
    bodies.clear()
    told = sync(index, work)
    assert (bodies, told.read, told.problems) == ([], 0, (SkippedFile("broken.md", "not text"),))
    (work / "broken.md").write_text("mended")
    sync(index, work)
    assert bodies == ["broken.md"] and found(index, "mended") == ["broken.md"]


def test_what_differs_from_the_index_is_told_without_reading_a_file(index, work, bodies):
    places = [DocumentFolder(work)]
    assert index.pending("ann", "gold", places) == PendingFiles(added=3)
    sync(index, work)
    (work / "broken.md").write_bytes(b"\x00\x01")
    sync(index, work)
    assert index.pending("ann", "gold", places) == PendingFiles() and index.pending("ann", "gold", places).total == 0
    bodies.clear()
    write(work, {"journal/1.md": "# Monday\nrewritten\n", "journal/2.md": "new", "journal/3.md": "new"})
    (work / "SOUL.md").unlink()
    assert index.pending("ann", "gold", places) == PendingFiles(added=2, changed=1, removed=1)
    (work / "broken.md").write_text("mended")
    assert index.pending("ann", "gold", places) == PendingFiles(added=3, changed=1, removed=1)
    assert bodies == []
    sync(index, work)
    assert index.pending("ann", "gold", places).total == 0


def test_a_sync_that_finds_nothing_new_lets_held_vectors_stand(index, work, monkeypatch):
    sync(index, work, embedder=Letters())
    read, times = vector_matrix._read_matrix, []
    monkeypatch.setattr(vector_matrix, "_read_matrix", lambda *asked: times.append(1) or read(*asked))
    for _ in range(3):
        assert found(index, "gold", slot="hybrid_embeddings", embedder=Letters())
        sync(index, work, embedder=Letters())
    assert len(times) == 1


# --- whose documents ----------------------------------------------------------------------------------------------------


def test_an_agent_finds_its_own_documents_and_the_shared_ones_and_no_other_agents(index):
    put(index, {"mine.md": "breakout of gold"}, agent="gold")
    put(index, {"theirs.md": "breakout of gold"}, agent="btc")
    put(index, {"global/playbook.md": "breakout playbook"}, agent=SHARED_SCOPE, type="playbook", tier=1)
    index.put("bob", "gold", [Document("bobs.md", "note", 3, "breakout of gold")], now=NOON)
    hits = search_index(index, "breakout", owner="ann", agent="gold").hits
    assert {hit.path: hit.shared for hit in hits} == {"mine.md": False, "global/playbook.md": True}


def test_what_another_agent_writes_changes_no_score(index):
    put(index, {"a.md": "gold breakout held", "b.md": "gold faded", "c.md": "silver breakout"})
    before = search_index(index, "gold breakout", owner="ann", agent="gold")
    put(index, {f"{n}.md": "gold breakout " * n for n in range(1, 30)}, agent="btc")
    assert search_index(index, "gold breakout", owner="ann", agent="gold") == before


def test_asking_two_folders_ranks_as_if_they_were_one(index):
    notes = {f"n{n:02}.md": f"gold {'breakout' if n % 3 else 'fade'} number{n} {'stop ' * (n % 5)}" for n in range(30)}
    alone = DocumentIndex(":memory:")
    put(alone, notes)
    put(index, dict(list(notes.items())[::2]), agent="gold")
    put(index, dict(list(notes.items())[1::2]), agent=SHARED_SCOPE)
    for question in ("gold stop", "breakout stop fade", "number7 breakout"):
        apart = search_index(index, question, owner="ann", agent="gold", limit=30).hits
        whole = search_index(alone, question, owner="ann", agent="gold", limit=30).hits
        assert [(hit.path, hit.score) for hit in apart] == [(hit.path, hit.score) for hit in whole]
    alone.close()


def test_a_forgotten_agent_is_gone_and_others_stay(index):
    put(index, {"a.md": "gold"}, agent="gold", embedder=Letters())
    put(index, {"a.md": "gold"}, agent="btc")
    index.forget("ann", "gold")
    assert found(index, "gold", agent="gold") == [] and found(index, "gold", agent="btc") == ["a.md"]


def test_two_folders_need_names_that_tell_them_apart(index, work):
    with pytest.raises(Invalid, match="prefix"):
        index.sync("ann", "gold", [DocumentFolder(work), DocumentFolder(work)], now=NOON)
    told = index.sync("ann", "gold", [DocumentFolder(work), DocumentFolder(work, prefix="old/")], now=NOON)
    assert told.documents == 6 and index.file_path("ann", "gold", "old/SOUL.md") == work / "SOUL.md"


# --- models -------------------------------------------------------------------------------------------------------------


def test_a_new_model_answers_only_when_all_its_vectors_are_made_and_the_old_one_until_then(index):
    old, new = Letters("old"), Letters("new", dim=52)
    put(index, {f"{n}.md": f"note {n} of gold" for n in range(100)}, embedder=old)

    new.embed, real = _failing_after(new, 1), new.embed
    told = index.fill("ann", "gold", new)
    assert (told.made, told.missing, told.complete) == (64, 36, False) and "refused" in told.problem
    new.embed = real
    half = search_index(index, "gold", owner="ann", agent="gold", slot="hybrid_embeddings", embedder=new)
    assert half.slot == "sqlite_fts" and "not complete" in half.note and half.hits
    assert (
        search_index(index, "gold", owner="ann", agent="gold", slot="hybrid_embeddings", embedder=old).slot == "hybrid_embeddings"
    )

    told = index.fill("ann", "gold", new)
    assert (told.made, told.complete) == (36, True)
    assert index.health("ann", "gold").models == ("new",)
    assert (
        search_index(index, "gold", owner="ann", agent="gold", slot="hybrid_embeddings", embedder=new).slot == "hybrid_embeddings"
    )
    assert search_index(index, "gold", owner="ann", agent="gold", slot="hybrid_embeddings", embedder=old).slot == "sqlite_fts"
    with index.cache.reading() as connection:
        assert connection.execute("SELECT DISTINCT model FROM vectors").fetchall() == [("new",)]


def _failing_after(embedder, batches):
    real, asked = embedder.embed, []

    def embed(texts):
        asked.append(texts)
        if len(asked) > batches:
            raise OSError("connection refused")
        return real(texts)

    return embed


def test_documents_are_indexed_though_the_embedder_is_broken_and_that_is_told(index, work):
    told = sync(index, work, embedder=Letters(broken=True))
    assert told.documents == 3 and told.vectors.missing == 3 and "refused" in told.vectors.problem
    assert found(index, "gold") == ["journal/1.md"]


# --- crashes and company ------------------------------------------------------------------------------------------------


def test_a_process_killed_in_mid_index_leaves_the_old_index_or_the_new_one_whole(tmp_path):
    """Thirty notes all name the same month; all are rewritten to the next one, and the indexer is killed at some moment."""
    tally = killed(tmp_path, 20, seed=5)
    assert tally["killed"] and tally["old"] and tally["old"] + tally["new"] == 20


def test_searches_go_on_while_another_thread_indexes(index, work):
    sync(index, work)
    wrong, over = [], threading.Event()

    def ask():
        while not over.is_set():
            if "SOUL.md" not in found(index, "never move a stop"):
                wrong.append(1)

    asking = threading.Thread(target=ask)
    asking.start()
    for n in range(10):
        write(work, {f"journal/{n}.md": f"# Day {n}\nnothing moved\n"})
        sync(index, work)
    over.set()
    asking.join()
    assert not wrong and index.health("ann", "gold").documents == 12


def between(monkeypatch, happens, times=1):
    """Let something happen after a sync has looked at the files, while it reads them."""
    read, left = text_files.read_text_file, [times]

    def slowly(seen):
        if left[0]:
            left[0] -= 1
            happens()
        return read(seen)

    monkeypatch.setattr(text_files, "read_text_file", slowly)


def test_a_sync_that_looked_earlier_does_not_undo_one_that_looked_later(index, work, tmp_path, monkeypatch):
    sync(index, work)
    other = DocumentIndex(tmp_path / "documents.db")

    def another_writes_and_syncs():
        write(work, {"journal/2.md": "quokka"})
        (work / "SOUL.md").unlink()
        sync(other, work)

    write(work, {"journal/slow.md": "slow"})
    between(monkeypatch, another_writes_and_syncs)
    told = sync(index, work)
    assert (
        found(index, "quokka") == ["journal/2.md"]
        and found(index, "slow") == ["journal/slow.md"]
        and found(index, "never move") == []
    )
    assert (told.documents, told.read, told.added) == (4, 1, 0), "what the other has taken in is not taken in again"
    other.close()


def test_nor_does_it_undo_one_of_another_process(work, tmp_path, monkeypatch):
    go, word = os.pipe()

    def writes_and_syncs():
        os.read(go, 1)
        write(work, {"journal/2.md": "quokka"})
        sync(DocumentIndex(tmp_path / "documents.db"), work)

    another = fork(writes_and_syncs)

    def it_does():
        os.write(word, b"!")
        assert os.waitstatus_to_exitcode(os.waitpid(another, 0)[1]) == 0

    index = DocumentIndex(tmp_path / "documents.db")
    between(monkeypatch, it_does)
    assert sync(index, work).documents == 4 and found(index, "quokka") == ["journal/2.md"]
    index.close()


def test_what_was_read_is_not_read_again_because_another_was_quicker(index, work, bodies, monkeypatch):
    between(monkeypatch, lambda: put(index, {"x.md": "quokka"}))
    told = sync(index, work, rebuild=True)
    assert (told.read, sorted(bodies), told.documents) == (3, sorted(FILES), 3), "a text that is no file goes with the next sync"


def test_where_others_write_all_the_time_a_sync_gives_up_and_says_so(index, work, monkeypatch):
    numbers = iter(range(100))
    looked = index_module.walk_all
    monkeypatch.setattr(index_module, "walk_all", lambda places: put(index, {f"{next(numbers)}.md": "x"}) and looked(places))
    with pytest.raises(Conflict, match="Try again"):
        sync(index, work)
    assert next(numbers) == index_module.MAX_SYNC_ATTEMPTS and found(index, "gold") == []


def closed(monkeypatch, *folders):
    """Folders that may not be entered."""
    real = os.scandir

    def scandir(path="."):
        if str(path) in map(str, folders):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)


def test_of_a_folder_that_may_not_be_entered_what_was_indexed_stays_and_that_is_told(index, work, monkeypatch):
    write(work, {"journal/deep/2.md": "platinum", "journals.md": "x"})
    sync(index, work)
    with monkeypatch.context() as refusing:
        closed(refusing, work / "journal")
        (work / "journals.md").unlink()
        assert index.pending("ann", "gold", [DocumentFolder(work)]) == PendingFiles(removed=1)
        told = sync(index, work)
        assert (told.removed, told.problems) == (1, (SkippedFile("journal/", "cannot be entered: Permission denied"),))
        assert found(index, "gold") == ["journal/1.md"] and found(index, "platinum") == ["journal/deep/2.md"]
        sync(index, work, rebuild=True)
        assert found(index, "platinum") == ["journal/deep/2.md"]
        closed(refusing, work)
        with pytest.raises(Invalid, match="cannot be entered"):
            sync(index, work)
    (work / "journal/1.md").unlink()
    assert (sync(index, work).removed, index.health("ann", "gold").problems) == (1, ())


def test_a_file_that_may_not_even_be_looked_at_stays_as_it_was_indexed(index, work, monkeypatch):
    sync(index, work)
    real = sources._file_entry

    class Closed:
        def __init__(self, entry):
            self.path = entry.path

        def stat(self, *, follow_symlinks):
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(
        sources, "_file_entry", lambda entry, path, *rest: real(Closed(entry) if path == "SOUL.md" else entry, path, *rest)
    )
    assert sync(index, work).problems == (SkippedFile("SOUL.md", "cannot be looked at: Permission denied"),)
    assert found(index, "never move") == ["SOUL.md"]


def test_of_what_was_forgotten_no_word_is_left_in_the_files_of_the_cache(index, work, tmp_path):
    for n in range(30):
        write(work, {f"journal/{k}.md": f"# Day {k}\nzebraquartz{k} " + f"zebraquartz rests {n} " * (3 * k) for k in range(20)})
        sync(index, work)
    put(index, {"a.md": "okapi"}, agent="silver")
    index.forget("ann", "gold")
    left = b"".join(file.read_bytes() for file in tmp_path.glob("documents.db*"))
    assert left.lower().count(b"zebraq") == 0 and b"okapi" in left and found(index, "okapi", agent="silver") == ["a.md"]


def test_two_processes_index_one_file(tmp_path, work):
    path = tmp_path / "documents.db"
    DocumentIndex(path).close()
    pids = [
        fork(lambda agent=agent: DocumentIndex(path).sync("ann", agent, [DocumentFolder(work)], now=NOON))
        for agent in ("a", "b", "c")
    ]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0, 0, 0]
    index = DocumentIndex(path)
    assert [index.health("ann", agent).documents for agent in ("a", "b", "c")] == [3, 3, 3]
    index.close()


def test_a_cache_of_another_version_is_made_anew(tmp_path, work):
    index = DocumentIndex(tmp_path / "d.db")
    sync(index, work)
    index.cache.connection.pragma("user_version", 999)
    index.close()
    again = DocumentIndex(tmp_path / "d.db")
    assert again.health("ann", "gold").documents == 0 and sync(again, work).documents == 3
    again.close()


def test_a_file_that_is_no_index_is_refused_and_left_alone(tmp_path):
    (tmp_path / "d.db").write_text("my notes, not a database " * 100)
    with pytest.raises(Damaged, match="memtape docs reindex"):
        DocumentIndex(tmp_path / "d.db")
    assert (tmp_path / "d.db").read_text().startswith("my notes")


# --- reports ------------------------------------------------------------------------------------------------------------


def report(strategy, symbols, won, factor):
    return (
        f"# Simulation: {strategy}-x\n\nThese are simulated trades: past prices, a paper broker.\n\n## Settings\n\n| what | value |\n|---|---|\n"
        f"| Strategy | {strategy} (lookback 20) |\n| Symbols | {symbols} |\n\n## Figures\n\n| what | value | n |\n|---|---:|---|\n"
        f"| Win rate | {won} % | 90 trades |\n| Profit factor | {factor} | 90 trades |\n| Net PnL of closed trades | 1,204.50 | 90 trades |\n"
    )


def test_a_report_of_memtape_is_computed_and_a_page_that_an_agent_wrote_is_not(index, work):
    write(
        work,
        {
            "reports/1/report.md": report("breakout", "XAUUSD", 41.5, 1.4),
            "reports/2/report.md": "# Simulation: great\nWin rate 99 %\n",
        },
    )
    sync(index, work)
    assert {hit.path: hit.tier for hit in search_index(index, "simulation win rate", owner="ann", agent="gold", types=["report"]).hits} == {
        "reports/1/report.md": 2, "reports/2/report.md": 3,
    }  # fmt: skip
    assert sync(index, work).read == 0


def test_backtests_like_this_one_are_those_of_the_same_strategy_symbols_and_results(index, work):
    pages = {
        "this": report("breakout", "XAUUSD", 41.5, 1.4), "same": report("breakout", "XAUUSD", 42.0, 1.35), "other-symbol": report("breakout", "BTC", 41.5, 1.4),
        "other-strategy": report("reversion", "XAUUSD", 65.0, 1.1), "nothing-alike": report("carry", "EURUSD", 80.0, 0.6),
    }  # fmt: skip
    write(work, {f"reports/{name}/report.md": page for name, page in pages.items()})
    sync(index, work)
    told = [each.path.split("/")[1] for each in similar_reports(index, "reports/this/report.md", owner="ann", agent="gold")]
    assert told == ["same", "other-symbol", "other-strategy", "nothing-alike"]
    with pytest.raises(Unknown, match="report of a simulation"):
        similar_reports(index, "SOUL.md", owner="ann", agent="gold")


def test_backtests_that_memtape_ran_are_found_and_compared_by_their_own_reports(index, work, tmp_path):
    for name, market, swing in (("btc-may", "BTC", 9), ("btc-june", "BTC", 10), ("eth-may", "ETH", 23)):
        prices = [100 + 8 * math.sin(hour / swing) + hour / 40 for hour in range(300)]
        rows = [
            f"{(NOON + timedelta(hours=hour)).isoformat()},{at:.2f},{at + 1:.2f},{at - 1:.2f},{at + 0.3:.2f},50"
            for hour, at in enumerate(prices)
        ]
        bars = tmp_path / f"{name}.csv"
        bars.write_text("\n".join(["time,open,high,low,close,volume", *rows]), encoding="utf-8")
        for strategy in STRATEGIES:
            agent = f"{strategy}-{name}".lower().replace("_", "-")
            page = work / "reports" / agent / "report.md"
            page.parent.mkdir(parents=True)
            with memtape.open(":memory:") as memory:
                simulate(
                    memory,
                    bars,
                    strategy,
                    agent=agent,
                    symbol=market,
                    fee_bps="5",
                    slippage_bps="2",
                    starting_equity="10000",
                    report=page,
                )
    sync(index, work)
    hits = search_index(index, "simulation on ETH win rate and profit factor", owner="ann", agent="gold", types=["report"]).hits
    assert {hit.tier for hit in hits} == {2} and "eth" in hits[0].path
    for strategy in STRATEGIES:
        name = strategy.replace("_", "-")
        told = similar_reports(index, f"reports/{name}-btc-may/report.md", owner="ann", agent="gold")
        assert told[0].path == f"reports/{name}-btc-june/report.md" and len(told) == 5
        assert told[0].report.strategy == strategy and told[0].report.symbols == ("BTC",)
        assert all({"max_drawdown", "equity_final"} <= each.report.metrics.keys() for each in told)


def test_a_first_index_reports_how_far_it_is(tmp_path):
    for n in range(30):
        (tmp_path / f"{n}.md").write_text(f"Note {n}: the spread was wide.")
    told: list[tuple[int, int]] = []
    index = DocumentIndex(":memory:", lambda done, total: told.append((done, total)))
    index.sync("ann", "gold", [DocumentFolder(tmp_path)], now=NOON)
    assert told == [(done, 60) for done in range(60)]
    index.sync("ann", "gold", [DocumentFolder(tmp_path)], now=NOON)
    index.close()
    assert len(told) == 60
