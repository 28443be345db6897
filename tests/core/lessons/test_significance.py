"""How surely a group of trades differs: what else than its mean must not make it look different."""

from __future__ import annotations

from random import Random

from memtape.core.lessons.label_shifts import GroupQuestion
from memtape.core.lessons.significance import flip_tests

DAYS = [at // 3 for at in range(300)]


def surely_different(histories: int, spread: float, apart: float = 0.0) -> int:
    """In how many histories a symbol seems to differ surely. Its outcomes have another spread, and differ by `apart`."""
    found = 0
    for seed in range(histories):
        chance = Random(seed)
        own = sorted(chance.sample(range(300), 40))
        size = dict.fromkeys(own, spread)
        values = [size.get(at, 1.0) * (2.0 if chance.random() < 1 / 3 else -1.0) + apart * (at in size) for at in range(300)]
        [test] = flip_tests(values, DAYS, [GroupQuestion(tuple(own), tuple(range(300)))])
        found += test.p_value <= 0.01
    return found


def test_a_symbol_that_is_traded_in_a_larger_size_is_not_judged_by_the_calm_of_the_others() -> None:
    assert surely_different(150, spread=4.0) <= 7  # 21 where shifts mix the two


def test_a_group_that_varies_like_the_others_keeps_its_power() -> None:
    assert surely_different(40, spread=1.0, apart=1.4) >= 36
