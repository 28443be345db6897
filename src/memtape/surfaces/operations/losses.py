"""The operation that answers "what do I lose on?"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memtape.core.codec import time_text
from memtape.core.ledger.trades import money_text
from memtape.core.lessons.losses import GroupField, LosingGroup, Losses, Verdict, loss_of_all
from memtape.surfaces.answer_models import Answer
from memtape.surfaces.answers import rounded_figure
from memtape.surfaces.questions import AsOf, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class GetLosses(AsOf):
    """Which groups, and how many."""

    by: Annotated[GroupField | None, Field(description="only groups by this")] = None
    limit: Annotated[int, Field(ge=1, le=100, description="groups, the worst first")] = 10


class LossRow(Answer):
    """A group of closed trades that lost money."""

    group: Annotated[str, Field(description="the group in words; hours and weekdays of the entry, UTC")]
    by: Annotated[GroupField, Field(description="what the trades have in common")]
    value: Annotated[str, Field(description="its value")]
    n: Annotated[int, Field(description="trades")]
    net_pnl_usd: Annotated[str | None, Field(description="their sum, in the account currency; null: only R is known")]
    mean_r: Annotated[float | None, Field(description="mean outcome, in `unit`")]
    n_r: Annotated[int, Field(description="trades with an outcome in `unit`")]
    verdict: Annotated[str, Field(description="against chance, in words")]
    is_worse: Annotated[bool, Field(description="true: worse than luck explains")]
    kind: Annotated[Verdict, Field(description="worse; luck: could be luck; rest: no worse than the rest; same: repeats another")]
    p_value: Annotated[float, Field(description="how often chance alone differs as much")]


class LossesAnswer(Answer):
    """What an agent loses on."""

    agent: Annotated[str, Field(description="the agent")]
    as_of: Annotated[str, Field(description="UTC")]
    n: Annotated[int, Field(description="closed trades with a known result")]
    net_pnl_usd: Annotated[str | None, Field(description="of all of them; null: no result in money is known")]
    mean_r: Annotated[float | None, Field(description="of all of them, in `unit`")]
    unit: Annotated[str, Field(description="of mean_r: R, R by ATR, or typical losses in money")]
    currency: Annotated[str, Field(description="account currency")]
    outcomes: Annotated[str, Field(description="who reported them: from the venue, from your records, claimed by the agent")]
    groups: Annotated[list[LossRow], Field(description="the worst first")]
    n_groups: Annotated[int, Field(description="losing groups with enough trades")]
    n_too_small: Annotated[int, Field(description="losing groups with too few trades to tell; not listed")]
    tested: Annotated[int, Field(description="groups tested against chance, all together")]
    summary: Annotated[str, Field(description="in one sentence")]


@operation(
    writes=False,
    columns={"groups": ("group", "n", "net_pnl_usd", "mean_r", "verdict")},
)  # fmt: skip
def get_losses(memory: Memory, ask: GetLosses, caller: Caller) -> LossesAnswer:
    """Get what an agent loses on: its worst groups of trades, against chance."""
    handle = agent_of(memory, ask)
    at, currency = ask.as_of or handle.now(), handle.agent.settings.currency
    found = handle.ledger.losses(as_of=at, head=ask.head)
    # Chance is judged over all groups together, whichever are listed.
    listed = list(found.groups) if ask.by is None else [each for each in found.groups + found.repeats if each.field == ask.by]
    return LossesAnswer(
        agent=handle.agent.id, as_of=time_text(at), n=found.n, net_pnl_usd=money_text(found.net_usd),
        mean_r=rounded_figure(found.mean_r), unit=found.unit.phrase(currency), currency=currency,
        outcomes=found.source,
        groups=[_row(group) for group in listed[: ask.limit]], n_groups=len(listed), n_too_small=found.too_small,
        tested=found.tested,
        summary=_summary(found, currency) + _elsewhere(ask.by, found.n, listed),
    )  # fmt: skip


def _row(group: LosingGroup) -> LossRow:
    return LossRow(
        group=group.label, by=group.field, value=group.value, n=group.n, net_pnl_usd=money_text(group.net_usd),
        mean_r=rounded_figure(group.mean_r), n_r=group.n_r, verdict=group.said, is_worse=group.verdict == "worse",
        kind=group.verdict, p_value=group.p_value,
    )  # fmt: skip


def _elsewhere(by: GroupField | None, n: int, listed: Sequence[LosingGroup]) -> str:
    """Where all groups of a kind stand: the list has those that lost money in enough trades, and hours in blocks."""
    if by not in ("hour", "weekday", "symbol", "side") or not n or (listed and by != "hour"):
        return ""
    none = "" if listed else f" No group by {by} with enough trades lost money."
    return f"{none} get_strategy_performance with detail lists every hour, weekday, symbol and side."


def _summary(found: Losses, currency: str) -> str:
    """The answer in a few sentences: whether all trades together lose, which groups are worse, and what was left out."""
    worse = [group.label for group in found.groups if group.verdict == "worse"]
    few = "1 losing group has" if found.too_small == 1 else f"{found.too_small} losing groups have"
    small = f" {few} too few trades to tell." if found.too_small else ""
    if not found.n:
        return "No closed trade with a known result yet."
    everything = loss_of_all(found, currency)
    if worse:
        return f"{everything}Worse than luck explains: {', '.join(worse)} ({found.tested} groups tested).{small}"
    if found.groups:
        return f"{everything}No group loses more than the other trades beyond luck ({found.tested} groups tested).{small}"
    return f"{everything}No group with enough trades lost money.{small}"
