"""Every operation of memtape, performed on each store in the same order, answers and refuses in the same words."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from tests.plugs.coach_model import coach
from tests.plugs.llm_server import llm_server
from tests.surfaces.parity import through_python
from tests.surfaces.test_parity import CALLS, ONCE, prime

OF_FILES = {"index_health", "list_documents"}  # they also tell when files were written and read


def test_every_operation_answers_alike_on_both_stores(
    opened: Callable[..., Memory], sqlite_url: str, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"  # the same for both: the log names the folders of documents
    monkeypatch.setenv("HOME", str(home))

    def perform_all(url: str) -> dict[str, Any]:
        (home / "workspace").mkdir(parents=True)
        memory = opened(url)
        _, answers, refused = prime(memory, home / "workspace")
        trade = memory.agent("diary").ledger.trades(status="closed")[0].id
        for name in (name for name in CALLS if name in ONCE):
            wanted = {"chat": memory.chats.all()[-1].id} if "chat" in CALLS[name] else {}
            answers[name] = through_python(memory, name, {k: trade if v == "?" else v for k, v in CALLS[name].items()} | wanted)
        assert answers.keys() == CALLS.keys()
        assert verify_store(memory).ok
        shutil.rmtree(home)
        refusals = {f"{name} refused": str(error) for name, error in refused.items()}
        return {name: answer for name, answer in (answers | refusals).items() if name not in OF_FILES}

    with llm_server() as server:
        server.plays(coach)
        monkeypatch.setenv("MEMTAPE_CHAT_MODEL", "openai/gpt-5-mini")
        monkeypatch.setenv("MEMTAPE_OPENAI_URL", server.url("openai"))
        on_sqlite, on_postgres = perform_all(sqlite_url), perform_all(postgres_url)
    assert on_sqlite["send_chat"]["answer"] == "You said: How did gold do?"
    assert {name: answer for name, answer in on_postgres.items() if answer != on_sqlite[name]} == {}
