"""The walk of a validation on Ray, started on this machine: the same numbers, also where a worker dies."""

from __future__ import annotations

from datetime import timedelta

import pytest

from memtape.lab.validate.history import HistorySource, opened_history
from memtape.lab.validate.parts import PartFiles, make_parts, run_parts, walk_part
from memtape.lab.validate.walk import WalkTerms
from tests.lab.test_validate import die_once
from tests.lab.trade_files import trade_rows, write_trades

ray = pytest.importorskip("ray")


def test_ray_gives_the_same_numbers_and_does_the_part_of_a_dead_worker_again(tmp_path):
    trades = write_trades(tmp_path / "trades.csv", trade_rows(60))
    with opened_history(HistorySource(files=(trades,))) as history:
        terms = WalkTerms(split=history.episodes[50].entry_at, embargo=timedelta(hours=1), source="stop", vary=False)
        parts, nowhere = make_parts(history, terms), PartFiles(None, "")
        assert run_parts(parts, nowhere, engine="ray", workers=1, work=die_once) == run_parts(parts, nowhere, work=walk_part)
    assert not ray.is_initialized()
