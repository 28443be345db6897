"""Documents on the surfaces: indexed by a command, found with their lines, cited, and told truthfully when something is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import memtape
from memtape.errors import Conflict, Invalid, Unknown
from memtape.surfaces.caller import Caller
from memtape.surfaces.cli.main import app
from memtape.surfaces.registry import all_operations, execute, perform

RETRIEVAL = Path(__file__).parents[2].parent / "shared/data/retrieval"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A desk's own notes, a rule, a ticker that is named once, and something outside that nobody may read."""
    folder = tmp_path / "desk"
    (folder / "journal").mkdir(parents=True)
    (folder / "TRADING_MANUAL.md").write_text("# Manual\n\n## Risk\nR3: never risk more than 1 % on a trade.\n", encoding="utf-8")
    for n in range(30):
        (folder / "journal" / f"day-{n:02}.md").write_text(
            f"# Day {n}\n\nBTC chopped around the open; waited.\n", encoding="utf-8"
        )
    (folder / "journal" / "why.md").write_text(
        "# Mean reversion\n\nWe stopped using it: the spread ate the edge.\nZEC42 was the last trade.\n", encoding="utf-8"
    )
    (tmp_path / "secret.md").write_text("seed phrase", encoding="utf-8")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    return folder


def through_cli(db: Path, *args: str) -> Any:
    result = CliRunner().invoke(app, ["docs", *args, "--json"], env={"MEMTAPE_DB": str(db)})
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_folder_is_indexed_by_a_command_and_searched_with_lines(tmp_path, workspace):
    db = tmp_path / "desk.db"
    done = through_cli(db, "index", str(workspace), "--agent", "main")
    assert (done["documents"], done["added"]) == (32, 32)
    assert through_cli(db, "index", str(workspace), "--agent", "main")["read"] == 0
    first = through_cli(db, "search", "why did we stop using mean reversion")["results"][0]
    assert (first["path"], first["start_line"]) == ("journal/why.md", 1)
    assert {"score", "snippet", "source", "tier", "content_hash", "reason"} <= first.keys()
    assert any(hit["path"] == "journal/why.md" for hit in through_cli(db, "search", "ZEC42")["results"][:3])
    assert (tmp_path / "desk.docs.db").exists()


@pytest.mark.parametrize("at", [0, 20_000], ids=["its first page", "a page within"])
def test_a_damaged_index_is_told_and_made_anew_by_a_reindex(tmp_path, workspace, at):
    db, index = tmp_path / "desk.db", tmp_path / "desk.docs.db"
    through_cli(db, "index", str(workspace), "--agent", "main")
    with index.open("r+b") as file:
        file.seek(at)
        file.write(b"a sector that went bad " * 400)
    told = CliRunner().invoke(app, ["doctor", "--json"], env={"MEMTAPE_DB": str(db)})
    assert told.exit_code == 1 and "memtape docs reindex" in json.loads(told.stdout)["problems"][0]
    assert through_cli(db, "reindex")["documents"] == 32
    assert through_cli(db, "search", "mean reversion")["results"][0]["path"] == "journal/why.md"
    assert (tmp_path / "desk.docs.db.damaged").exists()
    assert CliRunner().invoke(app, ["doctor"], env={"MEMTAPE_DB": str(db)}).exit_code == 0


def test_a_citation_follows_its_words_and_says_when_they_are_gone(tmp_path, workspace):
    memory = memtape.open(":memory:")
    execute(memory, "reindex_documents", {"folder": str(workspace)})
    cited = memory.agent().documents.cite("journal/why.md", 3, 3)
    asked = {"path": cited.path, "start_line": 3, "end_line": 3, "content_hash": cited.content_hash, "quoted": cited.quoted}
    assert execute(memory, "verify_citation", asked)["verdict"] == "valid"
    file = workspace / "journal" / "why.md"
    file.write_text("# Mean reversion\n\nA line before.\n\nWe stopped using it: the spread ate the edge.\n", encoding="utf-8")
    assert execute(memory, "verify_citation", asked) == {"verdict": "moved", "path": "journal/why.md", "start_line": 5, "end_line": 5}
    file.write_text("# Mean reversion\n\nWe love it.\n", encoding="utf-8")
    assert execute(memory, "verify_citation", asked)["verdict"] == "changed"
    file.unlink()
    execute(memory, "reindex_documents", {})
    assert execute(memory, "verify_citation", asked)["verdict"] == "gone"


def test_nothing_outside_the_workspace_is_read_and_a_model_chooses_no_folder(tmp_path, workspace):
    memory = memtape.open(":memory:")
    execute(memory, "reindex_documents", {"folder": str(workspace)})
    for path in ("link.md", "../secret.md", str(tmp_path / "secret.md")):
        with pytest.raises(Unknown):
            execute(memory, "get_document", {"path": path})
    assert execute(memory, "search_documents", {"query": "seed phrase"})["results"] == []
    with pytest.raises(Conflict, match="folders"):
        perform(memory, all_operations()["reindex_documents"], {"folder": "/etc"}, Caller("model"))


def test_agents_see_their_own_documents_and_those_that_are_shared(tmp_path, workspace):
    memory = memtape.open(":memory:")
    memory.create_skill("plain")
    for name in ("one", "two"):
        memory.create_agent(name, skill="plain")
    shared = tmp_path / "playbooks"
    shared.mkdir()
    (shared / "halt.md").write_text("# Exchange halt\n\nCancel everything and wait.\n", encoding="utf-8")
    execute(memory, "reindex_documents", {"agent": "one", "folder": str(workspace)})
    execute(memory, "reindex_documents", {"agent": "one", "folder": str(shared), "shared": True})
    assert execute(memory, "search_documents", {"agent": "two", "query": "mean reversion"})["results"] == []
    assert [
        hit["path"] for hit in execute(memory, "search_documents", {"agent": "two", "query": "exchange halt"})["results"]
    ] == ["playbooks/halt.md"]
    health = execute(memory, "index_health", {"agent": "one"})
    assert (health["documents"], health["shared"]["documents"], health["roots"]) == (32, 1, [str(workspace.resolve())])


def test_the_hybrid_slot_needs_no_setting_the_table_that_comes_along_answers(workspace):
    memory = memtape.open(":memory:")
    execute(memory, "reindex_documents", {"folder": str(workspace)})
    found = execute(memory, "search_documents", {"query": "mean reversion", "slot": "hybrid_embeddings"})
    assert (found["slot"], found["model"], found["missing"]) == ("hybrid_embeddings", "minilm-l6-v2-static-256.1", 0)
    assert found["note"] is None and found["results"]


def test_the_slot_is_chosen_in_the_config_and_a_question_may_choose_another(workspace, monkeypatch):
    monkeypatch.setenv("MEMTAPE_SLOT", "hybrid_embeddings")
    memory = memtape.open(":memory:")
    execute(memory, "reindex_documents", {"folder": str(workspace)})
    assert execute(memory, "search_documents", {"query": "mean reversion"})["slot"] == "hybrid_embeddings"
    assert execute(memory, "search_documents", {"query": "mean reversion", "slot": "sqlite_fts"})["slot"] == "sqlite_fts"
    (covered,) = execute(memory, "index_health", {})["coverage"]
    assert covered["answers"] and covered["have"] == covered["of"] > 0
    monkeypatch.setenv("MEMTAPE_SLOT", "vectors")
    with pytest.raises(Invalid, match="MEMTAPE_SLOT"):
        memtape.open(":memory:")


def test_documents_go_to_a_server_only_where_the_slot_that_compares_meaning_was_chosen(workspace, monkeypatch):
    monkeypatch.setenv("MEMTAPE_EMBEDDER", "remote")
    monkeypatch.setenv("MEMTAPE_EMBEDDER_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("MEMTAPE_EMBEDDER_MODEL", "any")
    memory = memtape.open(":memory:")
    assert execute(memory, "reindex_documents", {"folder": str(workspace)})["documents"] and memory.resources.embedder is None
    assert execute(memory, "search_documents", {"query": "mean reversion"})["note"] is None


def test_a_file_that_was_not_read_yet_is_told_by_the_health(workspace):
    memory = memtape.open(":memory:")
    execute(memory, "reindex_documents", {"folder": str(workspace)})
    assert execute(memory, "index_health", {})["pending"] == {"added": 0, "changed": 0, "removed": 0}
    (workspace / "new.md").write_text("Gold gapped.")
    assert execute(memory, "index_health", {})["pending"] == {"added": 1, "changed": 0, "removed": 0}


@pytest.mark.skipif(not RETRIEVAL.is_dir(), reason="the retrieval sets are not beside the checkout")
def test_the_search_is_judged_by_a_command(tmp_path):
    fiqa = RETRIEVAL / "fiqa_qa648"
    qrels = next(fiqa.glob("qrels*.tsv"))
    figures = through_cli(tmp_path / "x.db", "eval", "--corpus", str(fiqa / "corpus.jsonl.gz"), "--queries",
                          str(fiqa / "queries.jsonl.gz"), "--qrels", str(qrels))  # fmt: skip
    assert figures["queries"] == 648 and figures["ndcg@10"] >= 0.563
