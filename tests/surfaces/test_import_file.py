"""Importing a file over HTTP, on the command line and in Python: one operation, one answer."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import memtape
from memtape.errors import Conflict, Invalid
from memtape.surfaces.caller import Caller
from memtape.surfaces.cli.main import app
from memtape.surfaces.http import build_app
from memtape.surfaces.registry import execute, find, perform

FILES = {
    "trades": "trade_id,symbol,side,entry_time,exit_time,entry_price,exit_price,qty\n"
    "T1,BTC,long,2026-06-04T08:00:00Z,2026-06-04T09:00:00Z,100,110,2\n",
    "decisions": "time,symbol,action,reason,stop,target\n2026-06-04T08:00:00Z,BTC,buy,broke out,95,120\n",
    "equity": "date,equity,deposit\n2026-06-04,10000,\n2026-06-05,12000,2000\n",
    "positions": "time,symbol,qty,entry price,mark price,equity\n2026-06-04T08:00:00Z,BTC,2,100,105,10000\n",
}


def over_http(store: Path, ask: dict[str, Any]) -> Any:
    with memtape.open(str(store)) as memory, TestClient(build_app(memory), base_url="http://127.0.0.1") as client:
        return client.post("/v1/import_file", json=ask).json()


def in_python(store: Path, ask: dict[str, Any]) -> Any:
    with memtape.open(str(store)) as memory:
        return execute(memory, "import_file", ask)


def on_the_command_line(store: Path, ask: dict[str, Any]) -> Any:
    path = store.parent / ask["file"]
    path.write_text(ask["content"])
    arguments = ["import", str(path), "--agent", ask["agent"], "--db", str(store), "--json", "--kind", ask["kind"]]
    done = CliRunner().invoke(app, arguments + (["--commit"] if ask["commit"] else []))
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", FILES)
def test_every_kind_of_file_gives_the_same_answer_everywhere_and_comes_in_once(tmp_path: Path, kind: str) -> None:
    answers = []
    for number, surface in enumerate((over_http, in_python, on_the_command_line)):
        folder = tmp_path / str(number)
        folder.mkdir()
        ask = {"agent": "desk", "file": f"{kind}.csv", "content": FILES[kind], "kind": kind, "commit": False}
        preview = surface(folder / "m.db", ask)
        done = surface(folder / "m.db", ask | {"commit": True})
        again = surface(folder / "m.db", ask | {"commit": True})
        assert (preview["committed"], done["committed"], again["new"], again["batch"]) == (False, True, 0, None)
        assert (preview["new"], done["new"], again["duplicates"]) == (done["new"], done["new"], done["new"])
        with memtape.open(str(folder / "m.db")) as memory:
            undone = execute(memory, "undo_import", {"agent": "desk"})
            assert undone["file"] == f"{kind}.csv" and sum(undone["took_back"].values()) >= 1
        answers.append([preview, {**done, "batch": "..."}])
    assert answers[0] == answers[1] == answers[2]


def test_a_compressed_file_comes_as_base64(tmp_path: Path) -> None:
    packed = base64.b64encode(gzip.compress(FILES["equity"].encode())).decode()
    with memtape.open(str(tmp_path / "m.db")) as memory:
        assert execute(memory, "import_file", {"file": "e.csv.gz", "content": packed, "base64": True})["new"] == 3
        with pytest.raises(Invalid, match="is not base64"):
            execute(memory, "import_file", {"file": "e.csv.gz", "content": "%%%", "base64": True})


def test_a_model_may_not_import(tmp_path: Path) -> None:
    with memtape.open(str(tmp_path / "m.db")) as memory, pytest.raises(Conflict, match="owner only"):
        perform(memory, find("import_file"), {"file": "e.csv", "content": FILES["equity"], "commit": True}, Caller("model"))
