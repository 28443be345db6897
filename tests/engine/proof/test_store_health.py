"""What is known to be wrong with a store: what `doctor` finds, and what a server shows on its first page."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import memtape
from memtape.engine.proof.audit import rebuild_store
from memtape.engine.proof.projection_health import StoreHealth
from memtape.surfaces.cli import doctor
from memtape.surfaces.cli.doctor import examine
from memtape.surfaces.http import build_app
from memtape.surfaces.web import add_pages
from memtape.workers import verification
from memtape.workers.verification import VerificationSchedule
from tests.tamper.house import furnish


def test_doctor_and_the_first_page_name_a_loss_that_was_made_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = str(tmp_path / "memory.db")
    with furnish(memtape.open(db)) as memory:
        with memory.resources.repairing("aapl") as tables:
            tables.session.run("UPDATE trades SET net_pnl_usd = '1' WHERE stream = 'aapl'", {})
        health = StoreHealth(memory)
        schedule = VerificationSchedule(health, after_seconds=0)
        assert health.problems() == []
        schedule.verify_if_due()
        assert "net_pnl_usd is '1'" in health.problems()[0] and health.problems()[0].endswith("Run: memtape rebuild")
        with TestClient(build_app(memory, mcp=False, web=partial(add_pages, memory=memory, health=health)), base_url="http://127.0.0.1") as client:
            assert 'role="alert">&#39;aapl&#39; trades' in client.get("/").text
        rebuild_store(memory)
        schedule.verify_if_due()
        assert health.problems(), "the next look is ten minutes later"
        monkeypatch.setattr(verification, "monotonic", lambda: float("inf"))
        schedule.verify_if_due()
        assert health.problems() == []
    asked: list[int] = []
    monkeypatch.setattr(doctor, "SLOW_FROM_ROWS", 5)
    assert examine(db, on_slow=asked.append)["ok"] and asked and examine(db, quick=True, on_slow=asked.append)["ok"] and len(asked) == 1
