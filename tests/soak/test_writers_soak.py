"""Eight writers at once, for longer, on both stores."""

from __future__ import annotations

import pytest

from tests.faults.offices import books, furnish, office, open_office
from tests.faults.processes import together

WRITERS, EACH = 8, 500


def test_eight_processes_at_once_write_what_one_after_another_would(
    store_url: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTAPE_WAIT_SECONDS", "120")
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


@pytest.mark.parametrize("attempt", range(50))
def test_many_processes_can_open_a_store_that_does_not_exist_yet(sqlite_url: str, attempt: int) -> None:
    def come() -> None:
        with open_office(sqlite_url) as memory:
            memory.create_skill("plain")

    assert together([come] * 8) == [0] * 8
