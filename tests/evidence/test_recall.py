"""The study of recall, small: exact on a real history, and every figure says on how many trades it rests."""

from __future__ import annotations

import pytest

from evidence.histories import histories_available
from evidence.recall import study


@pytest.mark.skipif(not histories_available(), reason="../shared is absent")
def test_recall_on_a_real_history_is_exact_and_its_prediction_is_reported():
    exact, *predictive = study("small")
    assert exact.ok and exact.value == 1.0 and exact.n == 3
    assert [figure.n for figure in predictive] and all(figure.n >= 30 and "90 % interval" in figure.baseline for figure in predictive)
