"""An agent that is a model: it is shown what an agent sees at a tick and answers by one schema, `propose_order`.

For each symbol and tick it gets the brief, the last bars as a small table, what is held, and what was said to its last
proposal. What it answers is checked and becomes a decision with its orders. An answer that cannot be read is a decision
too: not to trade, refused with R0_BAD_ANSWER, recorded like any other. The model itself is the caller's: a function from
a prompt and a JSON schema to a mapping.

>>> from datetime import UTC
>>> monday, cash = datetime(2024, 1, 8, tzinfo=UTC), Decimal(1000)
>>> account = AccountView(t=monday, equity=cash, day_equity=cash, marks={"BTC": Decimal(100)})
>>> answer = {"symbol": "BTC", "action": "buy", "risk_pct": 1, "stop": 95, "reason": "Higher low"}
>>> proposal = propose_order(answer, account, symbol="BTC")
>>> [(order.side, str(order.qty), str(order.stop)) for order in proposal.orders]
[('buy', '2.00000000', '95')]
>>> propose_order(answer | {"stop": 105}, account, symbol="BTC").decision.verdict.code
'R8_STOP_SIDE'
>>> propose_order({"action": "moon"}, account, symbol="BTC").decision.verdict.code
'R0_BAD_ANSWER'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_DOWN, Decimal, localcontext
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from memtape.core.codec import decimal_text, digest, make_id, time_text
from memtape.core.observed import Bar, Decision, GuardVerdict, Run, Side
from memtape.core.values import MONEY, ONE, REASON_LENGTH, Fraction, Key, Quantity, Reason, Symbol, read
from memtape.errors import Invalid
from memtape.sim.account import AccountView
from memtape.sim.guard import Guard, judge_order
from memtape.sim.limits import STOP_SIDE
from memtape.sim.orders import Order, check_order_terms, order_refusal
from memtape.sim.strategies import LOT, Proposal

BAD_ANSWER = "R0_BAD_ANSWER"
LAST_BARS = 12
HUNDRED = Decimal(100)
OUT_OF_PROPORTION = Decimal(10_000)  # times the equity: a slip of the pen, and more digits than a ledger keeps


def _one_line(text: object) -> object:
    return " ".join(text.split()) if isinstance(text, str) else text


Percent = Annotated[Quantity, Field(le=100)]


class ProposeOrder(BaseModel):
    """What to do about one symbol now. Deliberately not trading is an answer: say what was passed up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    symbol: Symbol
    action: Literal["buy", "sell", "close", "no_trade"]
    reason: Annotated[Reason, BeforeValidator(_one_line), Field(min_length=1, description="why, in one or two sentences")]
    qty: Annotated[Quantity | None, Field(description="how much, in units of the symbol; or give risk_pct")] = None
    risk_pct: Annotated[Percent | None, Field(description="percent of equity that is lost if the stop is hit")] = None
    kind: Literal["market", "limit", "stop"] = "market"
    px: Annotated[Quantity | None, Field(description="price of a limit or stop entry")] = None
    stop: Annotated[Quantity | None, Field(description="where the idea is wrong: the position is closed there")] = None
    target: Annotated[Quantity | None, Field(description="where the profit is taken")] = None
    side: Annotated[Side | None, Field(description="for no_trade: the direction that was passed up")] = None
    bars: Annotated[int, Field(ge=1, le=1000, description="for how many bars an entry stays valid")] = 1
    confidence: Annotated[Fraction | None, Field(description="0 to 1")] = None
    memories: Annotated[tuple[Key, ...], Field(max_length=12, description="ids of the memories this rests on")] = ()

    @model_validator(mode="after")
    def _complete(self) -> ProposeOrder:
        if self.action not in ("buy", "sell"):
            return self
        if (self.qty is None) == (self.risk_pct is None):
            raise ValueError("needs a size; give either qty or risk_pct")
        if self.risk_pct is not None and self.stop is None:
            raise ValueError("has a risk but no stop; give the stop that the risk is measured by")
        if (self.kind == "market") != (self.px is None):
            raise ValueError("px does not suit the kind of order; give it for limit and stop, leave it out for market")
        return self


SCHEMA: Mapping[str, Any] = ProposeOrder.model_json_schema()


def propose_order(
    answer: ProposeOrder | object, account: AccountView, *, symbol: str, guard: Guard | None = None, strategy: str | None = None,
    run: Run | None = None,
) -> Proposal:  # fmt: skip
    """An answer about `symbol` as a decision and its orders, through the guard; never an error, whatever was answered."""
    about = Decision(symbol=symbol, action="no_trade", strategy=strategy, run=run)
    try:
        given = answer if isinstance(answer, ProposeOrder) else read(ProposeOrder, answer, at="propose_order")
        if given.symbol != symbol:
            raise Invalid("symbol", f"{given.symbol} was not asked about", f"Answer about {symbol}")
        with localcontext(MONEY):
            proposal = _proposal(given, account, about)
    except Invalid as bad:
        return Proposal(replace(about, reason="The answer could not be used.", verdict=_against(BAD_ANSWER, str(bad))))
    return proposal if guard is None else judge_order(proposal, account, guard)


def _proposal(given: ProposeOrder, account: AccountView, about: Decision) -> Proposal:
    held = account.position(given.symbol).qty
    decision = replace(
        about, action=given.action, reason=given.reason, side=given.side, stop=given.stop, target=given.target,
        confidence=given.confidence, slots={"memories": ", ".join(given.memories)} if given.memories else {},
    )  # fmt: skip
    if given.action == "no_trade":
        return Proposal(decision)
    if given.action == "close":
        if not held:
            raise Invalid("action", f"there is no position in {given.symbol} to close", "Answer no_trade")
        return _leaving(decision, given.symbol, held, min(abs(held), given.qty or abs(held)))
    qty = _size(given, account)
    if held and (held > 0) == (given.action == "sell") and qty <= abs(held):
        return _leaving(decision, given.symbol, held, qty)
    order = Order(
        symbol=given.symbol, side=given.action, qty=qty, kind=given.kind, px=given.px, stop=given.stop, target=given.target,
        bars=given.bars,
    )  # fmt: skip
    decision = replace(decision, side="long" if given.action == "buy" else "short", qty=qty)
    px = account.price(order)
    if px is None or px * qty > OUT_OF_PROPORTION * max(account.equity, ONE):
        raise Invalid("qty", f"{qty} is out of all proportion, or there is no price", "Give a size that the account can carry")
    if why := order_refusal(order, px):
        return Proposal(replace(decision, verdict=_against(STOP_SIDE, why[1])))
    check_order_terms(order)
    return Proposal(decision, (order,))


def _leaving(decision: Decision, symbol: str, held: Decimal, qty: Decimal) -> Proposal:
    """Takes a position off, whole or in part: what protected it stays with the rest, so no new stop or target."""
    order = Order(symbol=symbol, side="sell" if held > 0 else "buy", qty=qty, reduce_only=True)
    side: Side = "long" if held > 0 else "short"
    return Proposal(replace(decision, side=side, qty=qty, stop=None, target=None), (order,))


def _size(given: ProposeOrder, account: AccountView) -> Decimal:
    if given.qty is not None:
        return given.qty
    px = account.marks.get(given.symbol) if given.px is None else given.px
    if px is None or given.stop is None or given.risk_pct is None or px == given.stop or account.equity <= 0:
        raise Invalid("risk_pct", "gives no size: there is no distance to the stop, or no equity", "Give qty, or another stop")
    qty = (account.equity * given.risk_pct / HUNDRED / abs(px - given.stop)).quantize(LOT, rounding=ROUND_DOWN)
    if qty <= 0:
        raise Invalid("risk_pct", "is too small for any size", "Give a larger risk, or a nearer stop")
    return qty


def _against(code: str, why: str) -> GuardVerdict:
    plain = "".join(c if c.isprintable() else " " for c in why)  # a model's own words, in part
    return GuardVerdict(accepted=False, code=code, note=plain[:REASON_LENGTH])


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuestion:
    """What an agent is shown of one symbol at one tick."""

    symbol: str
    t: datetime
    brief: str
    bars: tuple[Bar, ...]  # the last ones, oldest first
    account: AccountView

    @property
    def prompt(self) -> str:
        """All of it as one text; the same sight gives the same bytes."""
        parts = [self.brief.strip(), f"## {self.symbol} at {time_text(self.t)}", table(self.bars), _standing(self)]
        ask = f"Answer with one JSON object by the schema propose_order, about {self.symbol} only."
        return "\n\n".join([part for part in parts if part] + [ask]) + "\n"


def table(bars: Sequence[Bar]) -> str:
    """Bars as a small table.

    >>> from datetime import UTC, timedelta
    >>> t0, (o, h, l, c) = datetime(2024, 1, 8, 9, tzinfo=UTC), map(Decimal, ("100", "101.5", "99", "101"))
    >>> print(table([Bar(symbol="BTC", t0=t0, t1=t0 + timedelta(hours=1), o=o, h=h, l=l, c=c)]))
    opened           | open | high  | low | close | volume
    2024-01-08 09:00 | 100  | 101.5 | 99  | 101   | -
    """
    rows: list[tuple[str, ...]] = [("opened", "open", "high", "low", "close", "volume")]
    for bar in bars:
        prices = [decimal_text(px) for px in (bar.o, bar.h, bar.l, bar.c)]
        rows.append((f"{bar.t0:%Y-%m-%d %H:%M}", *prices, "-" if bar.v is None else decimal_text(bar.v)))
    widths = [max(len(row[n]) for row in rows) for n in range(6)]
    return "\n".join(" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def _standing(asked: ModelQuestion) -> str:
    account, position = asked.account, asked.account.position(asked.symbol)
    held = "nothing"
    if position.qty and position.entry_px is not None:
        way = "long" if position.qty > 0 else "short"
        held = f"{way} {decimal_text(abs(position.qty))} @ {position.entry_px:.8g}"
    lines = [f"Held: {held}; entries waiting: {position.working}.", f"Equity: {account.equity:.2f}."]
    if asked.symbol in account.power:
        buy, sell = account.power[asked.symbol]
        lines.append(f"Buying power: {buy:.2f} long, {sell:.2f} short.")
    if account.verdict is not None:
        verdict = account.verdict
        said = "accepted" if verdict.accepted else f"refused, {verdict.code}: {verdict.note}"
        lines.append(f"Last proposal: {said}")
    return "\n".join(lines)


Decide = Callable[[ModelQuestion], object]  # a ProposeOrder, data to be read as one, or None: nothing to say
Model = Callable[[str, Mapping[str, Any]], object]  # (prompt, JSON schema) -> data


def asking(model: Model) -> Decide:
    """Lets a model decide: it is given the prompt and the schema of the answer."""
    return lambda asked: model(asked.prompt, SCHEMA)


class ModelTrader:
    """A strategy for `replay.run` whose every decision comes from `decide`; `brief` gives the text for a symbol and a time."""

    def __init__(
        self, decide: Decide, brief: Callable[[str, datetime], str], *, name: str = "proposing", bars: int = LAST_BARS,
        guard: Guard | None = None,
    ) -> None:  # fmt: skip
        self.name, self._decide, self._brief, self._bars, self._guard = name, decide, brief, bars, guard

    def propose(self, symbol: str, history: Mapping[str, Sequence[Bar]], account: AccountView, /) -> list[Proposal]:
        """Shows the agent what it may see, and reads its answer."""
        asked = ModelQuestion(
            symbol=symbol, t=account.t, brief=self._brief(symbol, account.t), bars=tuple(history[symbol][-self._bars :]),
            account=account,
        )  # fmt: skip
        answer = self._decide(asked)
        if answer is None:
            return []
        run = Run(id=make_id(self.name, symbol, time_text(account.t)), digest=digest(asked.prompt))
        return [propose_order(answer, account, symbol=symbol, guard=self._guard, strategy=self.name, run=run)]
