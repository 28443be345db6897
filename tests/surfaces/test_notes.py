"""Writing to documents on the surfaces: a model adds notes and proposes, the owner sees all of it and decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import memtape
from memtape.errors import Conflict, Invalid
from memtape.surfaces.caller import Caller
from memtape.surfaces.cli.main import app
from memtape.surfaces.registry import all_operations, execute, in_tool_set, params_schema, perform

MANUAL = "# Manual\n\nR3: never risk more than 1 % on a trade.\n"
EDIT = {"path": "TRADING_MANUAL.md", "old": "1 %", "new": "0.5 %", "reason": "three losses in a row", "run": "r-9"}


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A store whose agent has a manual."""
    desk = tmp_path / "desk"
    desk.mkdir()
    (desk / "TRADING_MANUAL.md").write_text(MANUAL, encoding="utf-8")
    with memtape.open(str(tmp_path / "desk.db")) as memory:
        execute(memory, "reindex_documents", {"folder": str(desk)})
    return str(tmp_path / "desk.db")


def by_a_model(memory: Any, name: str, data: dict[str, Any]) -> dict[str, Any]:
    return perform(memory, all_operations()[name], data, Caller("model"))


def through_cli(db: str, *words: str, expected: int = 0) -> str:
    done = CliRunner().invoke(app, ["docs", *words], env={"MEMTAPE_DB": db})
    assert done.exit_code == expected, done.output
    return done.output


def test_a_model_adds_a_note_that_is_found_cited_and_listed(db):
    with memtape.open(db) as memory:
        noted = by_a_model(memory, "append_note", {"kind": "learning", "text": "ZEC42 gaps on Mondays.", "run": "r-1"})
        assert noted["path"] == "memory/LEARNINGS.md" and not noted["duplicate"] and noted["index_problem"] is None
        first = execute(memory, "search_documents", {"query": "ZEC42"})["results"][0]
        assert (first["path"], first["tier"]) == ("memory/LEARNINGS.md", 3)
        read = execute(memory, "get_document", {name: noted[name] for name in ("path", "start_line", "end_line")})
        assert read["text"].endswith("[" + noted["id"] + "]\nZEC42 gaps on Mondays.")
        cited = {name: noted[name] for name in ("path", "start_line", "end_line", "content_hash")}
        assert execute(memory, "verify_citation", cited)["verdict"] == "valid"
        listed = execute(memory, "list_notes", {"run": "r-1"})
        assert [(one["id"], one["text"]) for one in listed["notes"]] == [(noted["id"], "ZEC42 gaps on Mondays.")]
        assert execute(memory, "append_note", {"kind": "learning", "text": "ZEC42 gaps on Mondays.", "run": "r-1"})["duplicate"]


def test_a_model_proposes_and_only_the_owner_decides(db, tmp_path):
    with memtape.open(db) as memory:
        made = by_a_model(memory, "propose_edit", EDIT)
        assert (made["status"], made["applies"], made["tier"], made["new_document"]) == ("proposed", True, 3, False)
        for name in ("accept_proposal", "reject_proposal"):
            with pytest.raises(Conflict, match="permission denied for a model"):
                by_a_model(memory, name, {"proposal_id": made["id"]})
        assert (tmp_path / "desk/TRADING_MANUAL.md").read_text() == MANUAL
        done = execute(memory, "accept_proposal", {"proposal_id": made["id"], "note": "agreed"})
        assert (done["status"], done["applied"], done["note"], done["applies"]) == ("accepted", "clean", "agreed", False)
        assert (tmp_path / "desk/TRADING_MANUAL.md").read_text() == MANUAL.replace("1 %", "0.5 %")
        assert execute(memory, "accept_proposal", {"proposal_id": made["id"]})["duplicate"]


def test_the_owner_sees_whether_a_proposal_still_applies(db, tmp_path):
    with memtape.open(db) as memory:
        made = execute(memory, "propose_edit", EDIT)
        file = tmp_path / "desk/TRADING_MANUAL.md"
        file.write_text(f"By the owner.\n{MANUAL}", encoding="utf-8")
        now = execute(memory, "get_proposal", {"proposal_id": made["id"]})
        assert (now["state"], now["applies"]) == ("moved", True) and " By the owner." in now["diff"]
        file.write_text("# Manual\n", encoding="utf-8")
        now = execute(memory, "list_proposals", {"status": "proposed"})["proposals"][0]
        assert (now["state"], now["applies"], now["diff"]) == ("stale", False, made["diff"])
        with pytest.raises(Conflict, match="propose it again"):
            execute(memory, "accept_proposal", {"proposal_id": made["id"]})
        execute(memory, "reject_proposal", {"proposal_id": made["id"]})
        assert execute(memory, "list_proposals", {"status": "proposed"})["n"] == 0


def test_a_list_of_proposals_has_the_newest_and_of_a_long_diff_its_beginning(db):
    with memtape.open(db) as memory:
        by_a_model(memory, "propose_edit", {"path": "notes/long.md", "text": "A line of the plan.\n" * 5_000, "reason": "r"})
        by_a_model(memory, "propose_edit", {"path": "notes/short.md", "text": "x", "reason": "r"})
        listed = execute(memory, "list_proposals", {"limit": 1})
        assert ([one["path"] for one in listed["proposals"]], listed["n"], listed["total"]) == (["notes/short.md"], 1, 2)
        assert listed["proposals"][0]["diff_left_out"] == 0
        long = execute(memory, "list_proposals", {})["proposals"][1]
        whole = execute(memory, "get_proposal", {"proposal_id": long["id"]})
        assert len(long["diff"]) <= 20_000 and whole["diff"].startswith(long["diff"] + "\n") and whole["diff_left_out"] == 0
        assert len(long["diff"]) + long["diff_left_out"] == len(whole["diff"])


def test_a_model_writes_no_rule_by_a_note(db):
    with memtape.open(db) as memory:
        for path in ("TRADING_MANUAL.md", "memory/soul.MD", "../secret.md", "reports/a.md"):
            with pytest.raises(Invalid) as refused:
                by_a_model(memory, "append_note", {"kind": "note", "text": "Risk 50 %.", "path": path, "run": "r-1"})
            assert refused.value.field == "path"


def test_the_tool_sets_have_what_they_may_use():
    trader, coach = (in_tool_set(all_operations(), name, Caller("model")) for name in ("trader", "coach"))
    deciding = {"accept_proposal", "reject_proposal", "list_proposals", "get_proposal", "list_notes"}
    assert {"append_note", "propose_edit"} <= set(trader) and deciding.isdisjoint(trader)
    assert "propose_edit" in coach and "append_note" not in coach and deciding.isdisjoint(coach)
    assert params_schema(all_operations()["append_note"])["properties"]["text"]["maxLength"] == 20_000


def test_on_the_command_line_the_owner_reads_notes_and_decides_on_edits(db, tmp_path):
    with memtape.open(db) as memory:
        noted = execute(memory, "append_note", {"kind": "note", "text": "Waited.\nAgain.", "run": "r-1"})
        made = execute(memory, "propose_edit", EDIT)
        other = execute(memory, "propose_edit", EDIT | {"new": "2 %"})
    row = f"note\tr-1\tnotes/notes.md\t{noted['start_line']}\t{noted['end_line']}\tWaited. Again."
    assert row in through_cli(db, "notes", "--columns", "at,kind,run,path,start_line,end_line,text")
    shown = through_cli(db, "proposals")
    assert "+R3: never risk more than 0.5 % on a trade." in shown and "three losses in a row" in shown
    assert "status: rejected" in through_cli(db, "reject", other["id"], "--note", "too much")
    assert "status: accepted" in through_cli(db, "accept", made["id"])
    assert json.loads(through_cli(db, "accept", made["id"], "--json"))["duplicate"] is True
    assert (tmp_path / "desk/TRADING_MANUAL.md").read_text() == MANUAL.replace("1 %", "0.5 %")
    assert "was rejected" in through_cli(db, "accept", other["id"], expected=3)
    assert "there is no proposal" in through_cli(db, "reject", "nothing", expected=2)
    assert [one["note"] for one in json.loads(through_cli(db, "proposals", "--status", "rejected", "--json"))["proposals"]] == [
        "too much"
    ]
