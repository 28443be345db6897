"""Four processes write to one store at once: all of it is there, and it is what one after another would have written."""

from __future__ import annotations

import pytest

from tests.faults.offices import books, furnish, office, open_office
from tests.faults.processes import together

WRITERS, EACH = 4, 40


def test_four_processes_at_once_write_what_one_after_another_would(
    store_url: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTAPE_WAIT_SECONDS", "60")  # on a busy machine a turn may be long in coming
    furnish(store_url, WRITERS)
    assert together([office(store_url, who, EACH) for who in range(WRITERS)]) == [0] * WRITERS
    with open_office(store_url) as memory:
        at_once = books(memory, WRITERS)
    alone = f"sqlite:///{tmp_path_factory.mktemp('alone') / 'memory.db'}"
    furnish(alone, WRITERS)
    for who in range(WRITERS):
        office(alone, who, EACH)()
    with open_office(alone) as memory:
        assert books(memory, WRITERS) == at_once
    assert at_once["rows in the log"] == WRITERS * EACH + WRITERS + 3  # and a skill, and the agents
