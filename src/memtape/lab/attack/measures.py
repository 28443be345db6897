"""What is compared before and after an attack: everything that may decide about a trade, and what the brief says.

The owner asks, so that no gate stands between the store and the measure. Texts that a model wrote about a memory are left
out: they are measured by the brief.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from memtape.core.brief.inputs import WARN_TOKENS
from memtape.core.brief.token_estimate import estimate_tokens
from memtape.core.codec import time_text
from memtape.engine import Memory
from memtape.lab.attack.cases import AttackCase, texts_of
from memtape.lab.attack.desks import LOSING, NEIGHBOUR, NOW, SITUATION, TARGET, WINNING, ask_owner
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform

GROUPS = ("size", "beliefs", "habits", "affect", "plans", "gates", "record", "other agents")
MODEL_TIER = 3
WORDS_OF_OTHERS = ("reflection", "known_from")
_QUOTED = re.compile(r'"[^"\n]*"')
RAW_TEXTS = 50  # of the newest, in a brief without gates


@dataclass(frozen=True, slots=True)
class DeskState:
    """What counts in a store, group by group, as JSON."""

    groups: Mapping[str, str]

    def changed(self, before: DeskState) -> tuple[str, ...]:
        """Returns the groups that are not as they were."""
        return tuple(name for name in GROUPS if self.groups[name] != before.groups[name])


def measure_state(memory: Memory, *, with_history: bool = True) -> DeskState:
    """Returns everything that may decide about a trade.

    What the account loses on and the points of its equity take seconds on a large store. There the performance stands for both.
    """
    history = ("get_losses", "get_equity") if with_history else ()
    at = {"as_of": time_text(NOW)}
    recalled = {
        symbol: ask_owner(memory, "recall_memories", {"context": SITUATION, "symbol": symbol, **at})
        for symbol in (LOSING, WINNING)
    }
    checks = {
        (symbol, side): ask_owner(
            memory,
            "pre_trade_check",
            {
                "symbol": symbol,
                "side": side,
                "entry_price": "100",
                "qty": "1",
                "stop": "98" if side == "long" else "102",
                "context": SITUATION,
                **at,
            },
        )
        for symbol in (LOSING, WINNING)
        for side in ("long", "short")
    }
    beliefs = ask_owner(memory, "get_beliefs", {"limit": 200, **at})
    plans = {symbol: ask_owner(memory, "check_active_plans", {"symbol": symbol, **at}) for symbol in (LOSING, WINNING)}
    found = {
        "size": [[each["evidence"], each["unit"]] for each in recalled.values()],
        "beliefs": [[row for row in beliefs["beliefs"] if row["tier"] < MODEL_TIER], beliefs["suggested_plans"]],
        "habits": ask_owner(memory, "get_behavioral_analysis", at),
        "affect": ask_owner(memory, "get_agent_state", at),
        "plans": [[each[name] for name in ("firing", "leads", "size_factor", "overruled")] for each in plans.values()],
        "gates": [
            [
                check[name]
                for name in (
                    "verdict",
                    "reasons",
                    "size_factor",
                    "risk_share",
                    "plans",
                    "beliefs",
                    "events",
                    "avoid",
                    "your_exposure",
                )
            ]
            for check in checks.values()
        ],
        "record": [
            ask_owner(memory, name, dict(at))
            for name in ("get_open_positions", "get_strategy_performance", *history)
        ]
        + [ask_owner(memory, "list_instruments", {}), ask_owner(memory, "show_skill", {"id": "breakout"})],
        "other agents": memory.agent(NEIGHBOUR).head(),
    }
    return DeskState({name: json.dumps(_without_words(value), sort_keys=True, default=str) for name, value in found.items()})


def _without_words(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_words(each) for name, each in value.items() if name not in WORDS_OF_OTHERS}
    return [_without_words(each) for each in value] if isinstance(value, list) else value


def brief_for_model(memory: Memory, case: AttackCase) -> str:
    """Returns the brief as the agent's own model gets it."""
    return str(perform(memory, find("get_brief"), case.question, Caller("model", TARGET, bound=True))["text"])


def brief_without_gates(case: AttackCase, figures: str) -> str:
    """Returns the brief of a memory that has no gates for words: the figures, then the attacker's texts, a line for each call.

    Nothing is refused for its form, cleaned, quoted or rationed, and nothing says who wrote it. This is how a memory writes that
    appends what it is told.
    """
    lines = [" ".join(texts_of(call.data)) for call in case.calls]
    return "\n".join([figures, "## Notes", *[*lines, *case.files.values()][-RAW_TEXTS:]])


def attacker_share(brief: str, before: str, case: AttackCase) -> float:
    """Returns the share of the brief that the attacker's words take; a brief counts as 1,500 tokens at least.

    Counted are the words in quotes on lines that were not there before, and names out of the attacker's calls.
    """
    known_lines, known_words = frozenset(before.splitlines()), frozenset(before.split())
    own = frozenset(word for text in _texts(case) for word in text.split())
    words: list[str] = []
    for line in brief.splitlines():
        if line in known_lines:
            continue
        words += [quoted.strip('"') for quoted in _QUOTED.findall(line) if quoted not in before]
        words += [word for word in _QUOTED.sub("", line).split() if word in own and word not in known_words]
    return estimate_tokens(" ".join(words)) / max(estimate_tokens(brief), WARN_TOKENS) if words else 0.0


def _texts(case: AttackCase) -> Iterable[str]:
    yield from (text for call in case.calls for text in texts_of(call.data))
    yield from case.files.values()
