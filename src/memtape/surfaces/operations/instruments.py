"""Operations on instruments: their terms, splits and dividends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memtape.core.codec import make_id, plain
from memtape.core.fills import Dividend, Instrument, Split
from memtape.core.ledger.trades import money_text as money
from memtape.core.values import Key, Leg, Money, Quantity, Symbol, Time
from memtape.surfaces.answer_models import Answer
from memtape.surfaces.answers import ReceiptAnswer, optional_time_text, receipt_answer
from memtape.surfaces.questions import AsOf, OfAgent, agent_of, flattened, value_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.engine.view.instruments import TermsStatement
    from memtape.surfaces.caller import Caller


StateInstrument = flattened("StateInstrument", Instrument, "instrument", {"symbol": "the symbol"})


@operation(writes=True)
def state_instrument(memory: Memory, ask: StateInstrument, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """State the terms of a symbol: margin or cash accounting, contract multiplier, linear or inverse payoff, base currency.

    A statement is whole: what it leaves out has its default. It also counts for earlier trades entered since valid_from.
    """
    handle = memory.agent_for_writing(ask.agent)  # type: ignore[attr-defined]
    stated: Instrument = value_of(ask, Instrument)
    return receipt_answer(handle.observe(stated, backfill=ask.backfill))  # type: ignore[attr-defined]


class ListInstruments(AsOf):
    """Whose instruments."""

    symbol: Annotated[Symbol | None, Field(description="only this symbol")] = None


class InstrumentTerms(Answer):
    """The terms of a symbol."""

    symbol: Annotated[str, Field(description="the symbol")]
    accounting: Annotated[str, Field(description="margin: PnL converted at the exit's rate; cash: each notional at its own rate")]
    multiplier: Annotated[str | None, Field(description="units per contract")]
    payoff: Annotated[str, Field(description="linear, or inverse (coin-margined)")]
    base: Annotated[str | None, Field(description="currency of what is bought, if the rate is 1/price")]
    valid_from: Annotated[str | None, Field(description="UTC; for trades entered from then on; null: from the beginning")]
    stated_at: Annotated[str | None, Field(description="UTC; when it became known; null: counts as always known")]


class InstrumentStatement(InstrumentTerms):
    """One statement of terms."""

    id: Annotated[str, Field(description="its id")]
    log_row: Annotated[int, Field(description="the log row that brought it")]
    in_force: Annotated[bool, Field(description="true: a trade entered at this moment gets these terms")]


class InstrumentsAnswer(Answer):
    """Terms in force, and every statement."""

    agent: Annotated[str, Field(description="the agent")]
    instruments: Annotated[list[InstrumentTerms], Field(description="terms in force, by symbol; other symbols have the defaults")]
    n: Annotated[int, Field(description="symbols with stated terms")]
    statements: Annotated[list[InstrumentStatement], Field(description="every statement, by symbol and valid_from")]


def _terms_fields(stated: TermsStatement) -> dict[str, str | None]:
    return {
        "symbol": stated.instrument.symbol, "accounting": stated.terms.accounting, "multiplier": money(stated.terms.multiplier),
        "payoff": stated.terms.payoff, "base": stated.terms.base,
        "valid_from": optional_time_text(stated.instrument.valid_from), "stated_at": optional_time_text(stated.stated_at),
    }  # fmt: skip


@operation(
    writes=False,
    columns={
        "instruments": ("symbol", "accounting", "multiplier", "payoff", "base", "valid_from"),
        "statements": ("symbol", "valid_from", "stated_at", "in_force"),
    },
)
def list_instruments(memory: Memory, ask: ListInstruments, caller: Caller) -> InstrumentsAnswer:
    """List the terms of an agent's instruments: those in force at a moment, and every statement."""
    handle = agent_of(memory, ask)
    found = handle.ledger.instruments(ask.symbol, as_of=ask.as_of, head=ask.head)
    in_force = [InstrumentTerms.model_validate(_terms_fields(each)) for each in found if each.in_force]
    statements = [
        InstrumentStatement.model_validate(
            {**_terms_fields(each), "id": each.id, "log_row": each.log_row, "in_force": each.in_force}
        )
        for each in found
    ]  # fmt: skip
    return InstrumentsAnswer(agent=handle.agent.id, instruments=in_force, n=len(in_force), statements=statements)


class RecordSplit(OfAgent):
    """A split."""

    symbol: Annotated[Symbol, Field(description="the share")]
    t: Annotated[Time, Field(description="from when prices and quantities are in new units")]
    ratio: Annotated[Quantity, Field(description="new units for one old: 10 for ten-for-one, 0.1 for a reverse split")]
    id: Annotated[Key | None, Field(description="the source's own id; default: made from the content")] = None
    backfill: Annotated[bool, Field(description="recorded late: counts as known from its own time, not from now")] = False


@operation(writes=True)
def record_split(memory: Memory, ask: RecordSplit, caller: Caller) -> ReceiptAnswer:
    """Record a split of a share: what is open then counts in new units; amounts of money stay. A repetition changes nothing."""
    split = Split(
        id=ask.id or make_id("split", ask.symbol, plain(ask.t), plain(ask.ratio)), symbol=ask.symbol, t=ask.t, ratio=ask.ratio
    )
    return receipt_answer(memory.agent_for_writing(ask.agent).observe(split, backfill=ask.backfill))


class RecordDividend(OfAgent):
    """A dividend."""

    symbol: Annotated[Symbol, Field(description="the share")]
    ex_date: Annotated[Time, Field(description="the trade that was open immediately before this moment gets it")]
    usd: Annotated[Money, Field(description="the whole amount, account currency; a short position pays: negative")]
    t: Annotated[Time | None, Field(description="when it is paid; default: the ex-date")] = None
    rate: Annotated[Quantity | None, Field(description="account currency per unit of the amount, if that is in another")] = None
    leg: Annotated[Leg, Field(description="'' on a net account")] = ""
    id: Annotated[Key | None, Field(description="the source's own id; default: made from the content")] = None
    backfill: Annotated[bool, Field(description="recorded late: counts as known from its own time, not from now")] = False


@operation(writes=True)
def record_dividend(memory: Memory, ask: RecordDividend, caller: Caller) -> ReceiptAnswer:
    """Record a dividend. A repetition changes nothing.

    It belongs to the trade that was open immediately before the ex-date, also if that trade has closed since.
    """
    content = (ask.symbol, plain(ask.ex_date), plain(ask.usd), plain(ask.rate) if ask.rate is not None else "", ask.leg)
    dividend = Dividend(
        id=ask.id or make_id("dividend", *content), symbol=ask.symbol, ex_date=ask.ex_date, t=ask.t or ask.ex_date, usd=ask.usd,
        rate=ask.rate, leg=ask.leg,
    )  # fmt: skip
    return receipt_answer(memory.agent_for_writing(ask.agent).observe(dividend, backfill=ask.backfill))
