"""A trader that asks a language model: it shows the model what an agent knows at a tick and reads the answer as `ProposeOrder`.

For each symbol and tick the model gets the brief, the last bars as a small table, the position, and the verdict on its last
proposal. A valid answer becomes a decision with its orders. An answer that cannot be used is no decision: the tick is skipped,
the reason is counted, and the model is not told of it. The caller supplies the model, as a function from a question to an answer.

>>> from datetime import UTC
>>> monday, cash = datetime(2024, 1, 8, tzinfo=UTC), Decimal(1000)
>>> account = AccountView(t=monday, equity=cash, day_equity=cash, marks={"BTC": Decimal(100)})
>>> answer = {"symbol": "BTC", "action": "buy", "risk_pct": 1, "stop": 95, "reason": "Higher low"}
>>> proposal = propose_order(answer, account, symbol="BTC")
>>> [(order.side, str(order.qty), str(order.stop)) for order in proposal.orders]
[('buy', '2.00000000', '95')]
>>> propose_order(answer | {"stop": 105}, account, symbol="BTC").decision.verdict.code
'R8_STOP_SIDE'
>>> propose_order({"action": "moon"}, account, symbol="BTC").what
'off_schema'
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_DOWN, Decimal, localcontext
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from memtape.core.codec import decimal_text, digest, make_id, time_text
from memtape.core.decisions.tick_answers import TickAnswer
from memtape.core.observed import Bar, Decision, GuardVerdict, Run, Side
from memtape.core.values import MONEY, ONE, REASON_LENGTH, Fraction, Key, Quantity, Reason, Symbol, read
from memtape.errors import Invalid
from memtape.sim.account import AccountView
from memtape.sim.guard import Guard, judge_order
from memtape.sim.limits import STOP_SIDE
from memtape.sim.model_use import ModelUse
from memtape.sim.orders import LOT, Order, check_order_terms, order_refusal
from memtape.sim.strategies import OrderProposal

SHOWN_BARS = 12
HUNDRED = Decimal(100)
MAX_LEVERAGE = Decimal(10_000)  # a larger position is a mistake, and has more digits than the ledger stores


def _one_line(text: object) -> object:
    return " ".join(text.split()) if isinstance(text, str) else text


def _at_most_hundred(percent: Decimal) -> Decimal:
    if percent > HUNDRED:
        raise ValueError("is more than 100; give percent of the equity")
    return percent


# The schema asks for a plain number. Numbers written as texts are read too.
OrderNumber = Annotated[Quantity, WithJsonSchema({"type": "number"})]
Percent = Annotated[OrderNumber, AfterValidator(_at_most_hundred)]


class ProposeOrder(BaseModel):
    """What to do about one symbol now. Deliberately not trading is an answer: say what was passed up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    symbol: Annotated[Symbol, WithJsonSchema({"type": "string", "description": "the symbol that the question is about"})]
    action: Literal["buy", "sell", "close", "no_trade"]
    reason: Annotated[Reason, BeforeValidator(_one_line), Field(min_length=1, description="why, in one or two sentences")]
    qty: Annotated[OrderNumber | None, Field(description="how much, in units of the symbol; or give risk_pct")] = None
    risk_pct: Annotated[Percent | None, Field(description="percent of equity that is lost if the stop is hit")] = None
    kind: Annotated[Literal["market", "limit", "stop"], Field(description="null: market")] = "market"
    px: Annotated[OrderNumber | None, Field(description="price of a limit or stop entry; null for market")] = None
    stop: Annotated[OrderNumber | None, Field(description="where the idea is wrong: the position is closed there")] = None
    target: Annotated[OrderNumber | None, Field(description="where the profit is taken")] = None
    side: Annotated[Side | None, Field(description="for no_trade: the direction that was passed up")] = None
    bars: Annotated[int, Field(ge=1, le=1000, description="for how many bars an entry stays valid; null: 1")] = 1
    confidence: Annotated[
        Annotated[Fraction, WithJsonSchema({"type": "number"})] | None, Field(description="0 to 1")
    ] = None
    memories: Annotated[tuple[Key, ...], Field(max_length=12, description="ids of the memories this rests on; null: none")] = ()

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


@dataclass(frozen=True, slots=True)
class UnusableAnswer:
    """A model that gave no answer that can be used, and why: a short name and a sentence."""

    problem: str
    what: str = "unusable"


def propose_order(
    answer: object, account: AccountView, *, symbol: str, guard: Guard | None = None, strategy: str | None = None,
    run: Run | None = None,
) -> OrderProposal | UnusableAnswer:  # fmt: skip
    """Returns an answer about `symbol` as a decision with its orders, after the guard; or why it cannot be used."""
    about = Decision(symbol=symbol, action="no_trade", strategy=strategy, run=run)
    if isinstance(answer, UnusableAnswer):
        return answer
    try:
        given = answer if isinstance(answer, ProposeOrder) else read(ProposeOrder, answer, at="propose_order")
    except Invalid as bad:
        return UnusableAnswer(_plain_line(str(bad)), "off_schema")
    try:
        if given.symbol != symbol:
            raise Invalid("symbol", f"the question is about {symbol}, not about {given.symbol}", f"Answer about {symbol}")
        with localcontext(MONEY):
            proposal = _proposal(given, account, about)
    except Invalid as bad:
        return UnusableAnswer(_plain_line(str(bad)))
    return proposal if guard is None else judge_order(proposal, account, guard)


def _proposal(given: ProposeOrder, account: AccountView, about: Decision) -> OrderProposal:
    held = account.position(given.symbol).qty
    decision = replace(
        about, action=given.action, reason=given.reason, side=given.side, stop=given.stop, target=given.target,
        confidence=given.confidence, slots={"memories": ", ".join(given.memories)} if given.memories else {},
    )  # fmt: skip
    if given.action == "no_trade":
        return OrderProposal(decision)
    if given.action == "close":
        if not held:
            raise Invalid("action", f"there is no position in {given.symbol} to close", "Answer no_trade")
        return _reduction(decision, given.symbol, held, min(abs(held), given.qty or abs(held)))
    qty = _size(given, account)
    if held and (held > 0) == (given.action == "sell") and qty <= abs(held):
        return _reduction(decision, given.symbol, held, qty)
    order = Order(
        symbol=given.symbol, side=given.action, qty=qty, kind=given.kind, px=given.px, stop=given.stop, target=given.target,
        bars=given.bars,
    )  # fmt: skip
    decision = replace(decision, side="long" if given.action == "buy" else "short", qty=qty)
    px = account.price(order)
    if px is None or px * qty > MAX_LEVERAGE * max(account.equity, ONE):
        raise Invalid(
            "qty", f"{qty} is far too large for the account, or there is no price", "Give a size that the account can carry"
        )
    if why := order_refusal(order, px):
        return OrderProposal(replace(decision, verdict=_refusal(STOP_SIDE, why[1])))
    check_order_terms(order)
    return OrderProposal(decision, (order,))


def _reduction(decision: Decision, symbol: str, held: Decimal, qty: Decimal) -> OrderProposal:
    """Reduces or closes a position. The remaining part keeps its stop and target, so the order has none."""
    order = Order(symbol=symbol, side="sell" if held > 0 else "buy", qty=qty, reduce_only=True)
    side: Side = "long" if held > 0 else "short"
    return OrderProposal(replace(decision, side=side, qty=qty, stop=None, target=None), (order,))


def _size(given: ProposeOrder, account: AccountView) -> Decimal:
    if given.qty is not None:
        # Below the smallest step there is nothing; what is less than one step is refused as dust.
        return max(given.qty.quantize(LOT, rounding=ROUND_DOWN), min(given.qty, LOT))
    px = account.marks.get(given.symbol) if given.px is None else given.px
    if px is None or given.stop is None or given.risk_pct is None or px == given.stop or account.equity <= 0:
        raise Invalid("risk_pct", "gives no size: the distance to the stop or the equity is zero", "Give qty, or another stop")
    qty = (account.equity * given.risk_pct / HUNDRED / abs(px - given.stop)).quantize(LOT, rounding=ROUND_DOWN)
    if qty <= 0:
        raise Invalid("risk_pct", "is too small for the smallest size", "Give a larger risk, or a closer stop")
    return qty


def _refusal(code: str, why: str) -> GuardVerdict:
    return GuardVerdict(accepted=False, code=code, note=_plain_line(why))


def _plain_line(text: str) -> str:
    # The text may quote the model.
    return "".join(c if c.isprintable() else " " for c in text)[:REASON_LENGTH]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuestion:
    """What the model is shown about one symbol at one tick."""

    symbol: str
    t: datetime
    brief: str
    stable_records: str = ""  # how far the brief stays the same from tick to tick
    bars: tuple[Bar, ...]  # the last bars, oldest first
    account: AccountView

    @property
    def stable_chars(self) -> int:
        """How many characters of the prompt stay the same from tick to tick, so that a provider may cache them."""
        return len(self.stable_records) if self.stable_records and self.prompt.startswith(self.stable_records) else 0

    @property
    def prompt(self) -> str:
        """The question as one text. The same question gives the same bytes."""
        parts = [self.brief.strip(), f"## {self.symbol} at {time_text(self.t)}", bar_table(self.bars), _account_lines(self)]
        ask = f"Answer with one JSON object by the schema propose_order, about {self.symbol} only."
        return "\n\n".join([part for part in parts if part] + [ask]) + "\n"


def bar_table(bars: Sequence[Bar]) -> str:
    """Returns bars as a small table.

    >>> from datetime import UTC, timedelta
    >>> t0, (o, h, l, c) = datetime(2024, 1, 8, 9, tzinfo=UTC), map(Decimal, ("100", "101.5", "99", "101"))
    >>> print(bar_table([Bar(symbol="BTC", t0=t0, t1=t0 + timedelta(hours=1), o=o, h=h, l=l, c=c)]))
    opened           | open | high  | low | close | volume
    2024-01-08 09:00 | 100  | 101.5 | 99  | 101   | -
    """
    rows: list[tuple[str, ...]] = [("opened", "open", "high", "low", "close", "volume")]
    for bar in bars:
        prices = [decimal_text(px) for px in (bar.o, bar.h, bar.l, bar.c)]
        rows.append((f"{bar.t0:%Y-%m-%d %H:%M}", *prices, "-" if bar.v is None else decimal_text(bar.v)))
    widths = [max(len(row[n]) for row in rows) for n in range(6)]
    return "\n".join(" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def _account_lines(question: ModelQuestion) -> str:
    account, position = question.account, question.account.position(question.symbol)
    held = "nothing"
    if position.qty and position.entry_px is not None:
        way = "long" if position.qty > 0 else "short"
        held = f"{way} {decimal_text(abs(position.qty))} @ {position.entry_px:.8g}"
    lines = [f"Held: {held}; entries waiting: {position.working}.", f"Equity: {account.equity:.2f}."]
    if question.symbol in account.power:
        buy, sell = account.power[question.symbol]
        lines.append(f"Buying power: {buy:.2f} long, {sell:.2f} short.")
    if account.verdict is not None:
        verdict = account.verdict
        outcome = "accepted" if verdict.accepted else f"refused, {verdict.code}: {verdict.note}"
        lines.append(f"Last proposal: {outcome}")
    return "\n".join(lines)


# Returns a ProposeOrder, data that is read as one, an UnusableAnswer, or None for no decision.
Decide = Callable[[ModelQuestion], object]


class ModelTrader:
    """A strategy for `run_simulation` that gets every decision from `decide`. `brief` gives the text for a symbol and a time."""

    def __init__(
        self, decide: Decide, brief: Callable[[str, datetime], str], *, name: str = "proposing", bars: int = SHOWN_BARS,
        guard: Guard | None = None,
    ) -> None:  # fmt: skip
        self.name, self._decide, self._brief, self._bars, self._guard = name, decide, brief, bars, guard
        self.use = ModelUse(name)

    def propose(self, symbol: str, history: Mapping[str, Sequence[Bar]], account: AccountView, /) -> list[OrderProposal]:
        """Asks the model about one symbol and reads its answer."""
        question = ModelQuestion(
            symbol=symbol, t=account.t, brief=self._brief(symbol, account.t), bars=tuple(history[symbol][-self._bars :]),
            account=account,
        )  # fmt: skip
        answer = self._decide(question)
        if answer is None:
            return []
        run = Run(id=make_id(self.name, symbol, time_text(account.t)), digest=digest(question.prompt))
        proposal = propose_order(answer, account, symbol=symbol, guard=self._guard, strategy=self.name, run=run)
        asked = TickAnswer(
            tick=time_text(account.t), symbol=symbol, at=account.t, model=self.name, digest=digest(question.prompt)
        )
        if isinstance(proposal, UnusableAnswer):
            self.use.answers.append(replace(asked, skipped=proposal.what, problem=proposal.problem))
            return []
        self.use.answers.append(replace(asked, answer=json.dumps({"action": proposal.decision.action})))
        return [proposal]
