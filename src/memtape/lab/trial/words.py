"""The words of a trial: its first line, and its tables for the terminal. No sentence says that memory makes money."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memtape.core.trial.arms import OFF, ON, SHUFFLED


def trial_sentence(result: Mapping[str, Any]) -> str:
    """Returns the verdict in one sentence."""
    verdict, name = result["verdict"], result["decider"]["name"]
    pairs = {one["other"]: one for one in result["comparisons"] if one["own"] == ON}
    if verdict["answer"] in ("helps", "hurts"):
        word = "helped" if verdict["answer"] == "helps" else "hurt"
        off, placebo = pairs[OFF], pairs[SHUFFLED]
        return (
            f"Memory {word} {name} on these bars: {off['mean']:+.2f} % of equity a week against no memory and "
            f"{placebo['mean']:+.2f} % against shuffled outcomes, over {off['weeks']} weeks."
        )
    return f"It cannot be told whether memory helps {name}: {verdict['reason']}."


def trial_terminal(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a terminal shows below the first line: tables that fit 80 characters."""
    data = result["data"]
    arms = [
        {
            "arm": arm, "trades": row["trades"], "%_of_equity": _number(row["share"], 2), "mean_R": _number(row["mean_r"], 3),
            "won_%": _number(row["won"], 1, 100.0), "skipped": row["skipped"], "halved": row["halved"],
            "tokens": _number(result["cost"][arm]["tokens"], 0),
        }
        for arm, row in result["arms"].items()
    ]  # fmt: skip
    pairs = [
        {
            "memory": one["own"], "against": one["other"], "%_a_week": f"{one['mean']:+.3f}", "90_%": _interval(one["interval"]),
            "p_week": _number(one["p_by_week"], 3), "p_swap": _number(one["permutation_p"], 3), "weeks": one["weeks"],
        }
        for one in result["comparisons"]
    ]  # fmt: skip
    checks = {row["check"]: {"differ_of_n": row["check"]} for row in result["said"] if row["n"]}
    for row in result["said"]:
        if row["check"] in checks:
            checks[row["check"]][row["arm"]] = f"{row['differ']} of {row['n']}"
    period = f"{data['bars']:,} bars of {', '.join(data['symbols'])}, {data['first'][:10]} to {data['last'][:10]}"
    return {
        "power": result["power"],
        "basis": f"{period}; {_seeds(result['settings']['seeds'])}",
        "arms": arms, "comparisons": pairs, "said_and_done": list(checks.values()), "look_ahead": result["look_ahead"],
        "notes": result["notes"],
    }  # fmt: skip


def _seeds(n: int) -> str:
    return "1 seed" if n == 1 else f"{n} seeds; figures of an arm are means over them"


def _number(value: float | None, digits: int, scale: float = 1.0) -> str | None:
    return None if value is None else f"{scale * value:,.{digits}f}"


def _interval(ends: list[float] | None) -> str | None:
    return None if ends is None else f"{ends[0]:+.2f} to {ends[1]:+.2f}"
