"""A trial as a Markdown document: the verdict in the first line, then every table. Search finds it among an agent's reports.

The same result gives the same bytes: a report has no clock and no path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memtape.core.codec import canonical_plain, digest, moment, time_text
from memtape.core.trial.arms import ARM_TITLES
from memtape.lab.validate.report_text import Row, gate_rows, interval_text, markdown_table, number_text

TRIAL_HEADING = "# Trial: "
TRIAL_METHOD = (
    "The same decision maker runs on the same bars in every arm, with a paper broker and a memory of its own that begins empty. "
    "A question is answered as of the bar that has just closed.",
    "The placebo learns every trade with the outcome of another trade of the same strategy, drawn from those that ended before "
    "it. Bars, and with them how far a trade ran, stay as they were.",
    "A seed changes where the bars begin (the first has all of them, later ones begin within the first fifth), how the placebo "
    "is shuffled, and the sampling of a model. Seeds share the market: tests count weeks, never seeds.",
    "Results are in percent of the equity at the decision, by the week of entry. Intervals hold 90 %; they redraw weeks.",
    "The permutation p exchanges the two arms within weeks, in all seeds together.",
    "Memory helps only if it is better than no memory and better than the placebo.",
)
ARM_HEAD = ("arm", "trades", "% of equity", "won", "mean R (90 %)", "drawdown", "skipped", "halved", "questions", "n")
PAIR_HEAD = (
    "memory", "against", "% a week", "90 %", "p by week", "p by four weeks", "permutation p", "trades that differ", "weeks",
)  # fmt: skip
COST_HEAD = (
    "arm", "tokens for a decision", "more than off", "US dollars for a decision", "in all", "% a week against off", "n", "by",
)  # fmt: skip
SAID_HEAD = ("check", "arm", "differ", "n", "examples")


def trial_title(result: Mapping[str, Any]) -> str:
    """Returns what was tried."""
    return f"{result['decider']['name']} on {result['data']['file']}"


def trial_name(result: Mapping[str, Any]) -> str:
    """Returns a file name for the report: what was tried, and a mark of its data and settings."""
    words = f"{result['decider']['name']}-{result['data']['file'].split('.')[0]}".lower()
    name = "".join(c if c.isalnum() else "-" for c in words).strip("-")[:60]
    return f"trial-{name}-{digest(canonical_plain({'data': result['data']['hashes'], 'settings': result['settings_hash']}))[:8]}"


def arm_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yields what each arm got: means over seeds."""
    for arm, row in result["arms"].items():
        yield (
            f"{arm}: {ARM_TITLES[arm]}", number_text(row["trades"], 1), number_text(row["share"], 2), _percent(row["won"]),
            f"{number_text(row['mean_r'])} ({interval_text(row['mean_r_interval'], 2)})", _percent(row["drawdown"]),
            number_text(row["skipped"], 1), number_text(row["halved"], 1), number_text(row["questions"], 1), f"{row['n']:,}",
        )  # fmt: skip


def pair_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yields the paired differences of arms."""
    for one in result["comparisons"]:
        yield (
            one["own"], one["other"], f"{one['mean']:+.3f}", interval_text(one["interval"]), number_text(one["p_by_week"]),
            number_text(one["p_by_four_weeks"]), number_text(one["permutation_p"]), f"{one['changed_trades']:,}",
            f"{one['weeks']:,}",
        )  # fmt: skip


def cost_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yields what memory cost beside what it did."""
    for arm, row in result["cost"].items():
        effect = "–" if row["effect"] is None else f"{row['effect']:+.3f}"
        yield (
            arm, number_text(row["tokens"], 0), number_text(row.get("more_tokens"), 0), row["cost_usd"] or "–",
            row["total_usd"] or "–", effect, f"{row['n']:,}", row["by"],
        )  # fmt: skip


def said_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yields the checks of words against deeds that could be made."""
    for row in result["said"]:
        if row["n"]:
            yield row["what"], row["arm"], f"{row['differ']:,}", f"{row['n']:,}", "; ".join(row["examples"][:2]) or "–"


def trial_gate_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yields the gates of the verdict."""
    return gate_rows(result["verdict"])


def seed_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yields trades and results of each seed."""
    for row in result["seeds"]:
        cells = (f"{one['share']:+.2f} % ({one['trades']} trades)" for one in row["arms"].values())
        yield str(row["seed"]), time_text(moment(row["weeks_from"])), *cells


def curve_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yields where each arm was at the quarters of the weeks."""
    weeks, lines = result["curves"]["weeks"], result["curves"]["lines"]
    for place in sorted({len(weeks) * part // 4 - 1 for part in range(1, 5)} - {-1}):
        yield weeks[place], *(f"{line[place]:+.2f}" for line in lines.values())


def trial_setting_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yields what the numbers depend on: data, decision maker, settings, seed, version, hashes."""
    data, settings, decider = result["data"], result["settings"], result["decider"]
    yield "Bars", f"{data['bars']:,} of {', '.join(data['symbols'])}, {data['first']} to {data['last']}"
    yield "SHA-256 of bars", data["hashes"]["bars"]
    yield "Decision maker", f"{decider['name']} ({decider['kind']})"
    if decider["code"]:
        yield "SHA-256 of its code", decider["code"]
    yield "Arms", ", ".join(settings["arms"])
    yield "Seeds", f"{settings['seeds']}, all from {settings['chance']}; {settings['resamples']} redrawn histories"
    yield "Costs of trading", f"{settings['fee_bps']} basis points a fill, {settings['slippage_bps']} of slippage"
    yield "Starting equity", settings["starting_equity"]
    if settings["priced_as"]:
        yield "Tokens priced as", settings["priced_as"]
    yield "memtape", result["memtape"]
    yield "SHA-256 of settings", result["settings_hash"]


def trial_markdown(result: Mapping[str, Any]) -> str:
    """Returns the report as Markdown."""
    arms = tuple(result["arms"])
    parts = [result["sentence"], "", f"{TRIAL_HEADING}{trial_title(result)}", "", *result["power"], ""]
    parts += [f"- Look-ahead: {sign}" for sign in result["look_ahead"]] + [f"- {note}" for note in result["notes"]] + [""]
    sections: list[tuple[str, Row, Iterator[Row]]] = [
        ("Does memory help: differences between arms", PAIR_HEAD, pair_rows(result)),
        ("Arms", ARM_HEAD, arm_rows(result)),
        ("What memory costs", COST_HEAD, cost_rows(result)),
        ("What was said and what was done", SAID_HEAD, said_rows(result)),
        ("Gates of the verdict", ("gate", "", "found"), trial_gate_rows(result)),
        ("Result by week, percent of equity", ("week of", *arms), curve_rows(result)),
        ("Seeds", ("seed", "from", *arms), seed_rows(result)),
        ("Data and settings", ("what", "value"), trial_setting_rows(result)),
    ]
    for title, head, rows in sections:
        parts += [f"## {title}", "", markdown_table(head, rows), ""]
    parts += ["## Method", "", *(f"- {line}" for line in TRIAL_METHOD), ""]
    return "\n".join(parts)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
