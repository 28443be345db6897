"""Values are made by a quicker `dataclass`: they behave as those of Python do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from memtape.core import value_class

KINDS: tuple[dict[str, Any], ...] = ({"frozen": True, "slots": True}, {"frozen": True, "slots": True, "kw_only": True}, {"slots": True},
                                     {"frozen": True}, {"slots": True, "eq": False})  # fmt: skip


def pair(**kind: Any) -> list[Any]:
    """The same class, made by Python and by memtape."""
    made = []
    for dataclass in (dataclasses.dataclass, value_class.dataclass):

        @dataclass(**kind)
        class Order:
            symbol: str
            price: int = 100
            tags: list[str] = dataclasses.field(default_factory=list, compare=False)
            seen: int = dataclasses.field(default=0, repr=False)

            def __post_init__(self) -> None:
                if self.price < 0:
                    raise ValueError("below zero")

        made.append(Order)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_is_made_compared_shown_and_changed_as_python_would(kind: dict[str, Any]) -> None:
    def outcome(order: Any) -> list[object]:
        one, other = order(symbol="BTC", tags=["a"]), order(symbol="BTC")
        found: list[object] = [one == other, one != order(symbol="ETH"), one == 3, repr(one), other.tags, dataclasses.asdict(one)]
        found += [dataclasses.replace(one, price=7).price, copy.copy(one).tags is one.tags, copy.deepcopy(one).symbol]
        found += [[field.name for field in dataclasses.fields(one)], getattr(order, "__match_args__", None)]
        for attempt in (lambda: hash(one) == hash(other), lambda: setattr(one, "price", 3), lambda: order(), lambda: order(symbol=1, extra=2),
                        lambda: order(symbol="BTC", price=-1), lambda: delattr(one, "price"), lambda: order("BTC", 5).price):  # fmt: skip
            try:
                found.append(attempt())
            except (TypeError, ValueError, AttributeError) as error:
                found.append((type(error), str(error)))
        return found

    theirs, ours = (outcome(order) for order in pair(**kind))
    assert ours == theirs


@value_class.dataclass(frozen=True, slots=True)
class Level:
    """A price that matters."""

    symbol: str
    price: int = 100


@value_class.dataclass(frozen=True, slots=True)
class Zone(Level):
    top: int = 110


def test_a_value_can_be_pickled_inherited_from_and_matched() -> None:
    zone = Zone("BTC", 90, top=95)
    assert pickle.loads(pickle.dumps(zone)) == zone and zone != Level("BTC", 90) and len({zone, Zone("BTC", 90, 95)}) == 1
    match zone:
        case Zone(symbol, price, top):
            assert (symbol, price, top) == ("BTC", 90, 95)
    with pytest.raises(dataclasses.FrozenInstanceError):
        zone.top = 3  # type: ignore[misc]


def test_a_method_is_compiled_only_once_it_is_called() -> None:
    @value_class.dataclass(frozen=True, slots=True)
    class Mark:
        price: int

    before = Mark.__init__
    assert Mark(1) == Mark(1) and Mark.__init__ is not before
