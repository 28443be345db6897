"""The terms of a simulation, as they are recorded with it. A run under the same name continues it, and must have the same terms.

>>> recorded = {"strategy": "breakout", "fee_bps": "5", "prefix": "3f21aa"}
>>> differing_terms(recorded, {"strategy": "breakout", "fee_bps": "7", "prefix": "0b77c1"})
['fee_bps is 5 there and 7 here']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from memtape.core.brief.compose import PROMPT_VERSION
from memtape.core.codec import canonical_plain, decimal_text, time_text
from memtape.core.observed import Bar
from memtape.sim.bars import bars_hash

DESK_PROMPT_VERSION = 1  # of the question around the brief: raise it when a model would be asked in other words
PREFIX = "prefix"  # of the ids of orders and fills: the recorded one is used again, so it never differs
HASH_SHOWN = 12  # characters


def simulation_terms(
    bars: Sequence[Bar], *, strategy: str, asks_model: bool, skill: str, limits: Mapping[str, str], fee_bps: Decimal,
    slippage_bps: Decimal, starting_equity: Decimal, venue: Mapping[str, str | None], prefix: str,
) -> dict[str, str]:  # fmt: skip
    """Returns everything that the ticks and decisions of a run depend on, as text by name. `skill` names its version too."""
    prompt = {"prompt": f"{PROMPT_VERSION}.{DESK_PROMPT_VERSION}"} if asks_model else {}
    return {
        "bars": bars_hash(bars), "n_bars": str(len(bars)), "first": time_text(bars[0].t0), "last": time_text(bars[-1].t1),
        "strategy": strategy, "skill": skill, "limits": canonical_plain(dict(limits)), "fee_bps": decimal_text(fee_bps),
        "slippage_bps": decimal_text(slippage_bps), "starting_equity": decimal_text(starting_equity),
        **{name: value for name, value in venue.items() if value is not None}, **prompt, PREFIX: prefix,
    }  # fmt: skip


def differing_terms(recorded: Mapping[str, str], given: Mapping[str, str]) -> list[str]:
    """Returns a phrase for each term that differs."""
    found = [name for name in {**recorded, **given} if name != PREFIX and recorded.get(name) != given.get(name)]
    if "bars" in found:
        # The hash says it all; counts and times help to find out why.
        there, here = (
            f"{terms['bars'][:HASH_SHOWN]} ({terms['n_bars']} from {terms['first']} to {terms['last']})"
            for terms in (recorded, given)
        )
        others = [name for name in found if name not in ("bars", "n_bars", "first", "last")]
        return [f"bars are {there} there and {here} here", *(_phrase(name, recorded, given) for name in others)]
    return [_phrase(name, recorded, given) for name in found]


def _phrase(name: str, recorded: Mapping[str, str], given: Mapping[str, str]) -> str:
    there, here = (terms.get(name, "not given") for terms in (recorded, given))
    return f"{name} is {there} there and {here} here"
