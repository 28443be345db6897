"""Trades that come whole: reported closed by a source, or claimed by the agent itself.

The figures are those of the source, computed where it states none. Bars show how far such a trade ran, as for any other. Terms
and bars that become known later change a reported trade from then on: it has versions too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal, localcontext

from memtape.core.codec import canonical
from memtape.core.ids import TradeId
from memtape.core.ledger.position_events import TermsEvent
from memtape.core.ledger.rates import Rates
from memtape.core.ledger.rounds import KnownBar, Round, minutes
from memtape.core.ledger.terms import DEFAULT_TERMS, AccountTerms, ContractTerms
from memtape.core.ledger.trades import Trade
from memtape.core.ledger.versions import TradeVersion
from memtape.core.observed import Claim, ClosedTrade
from memtape.core.values import MONEY, ONE, ZERO


def reported_trade_versions(
    terms: AccountTerms, trade: ClosedTrade, known_at: datetime, skill_version: int, id_: TradeId,
    statements: Sequence[TermsEvent] = (), bars: Sequence[KnownBar] = (), voided_at: datetime | None = None,
) -> list[TradeVersion]:  # fmt: skip
    """A reported trade in the versions in which it was believed, until `voided_at` if it was taken back then."""
    held = [known for known in bars if known.bar.t1 > trade.entry_at and known.bar.t0 < trade.exit_at]
    stated = [event for event in statements if event.order[0] <= trade.entry_at]
    news = {event.known_at for event in stated} | {event.voided_at for event in stated if event.voided_at}
    news |= {known.known_at for known in held}
    moments = [known_at, *sorted(at for at in news if at > known_at and (voided_at is None or at < voided_at))]
    found: list[TradeVersion] = []
    for n, moment in enumerate(moments):
        known_terms = [e for e in stated if e.known_at <= moment and (e.voided_at is None or e.voided_at > moment)]
        latest = max(known_terms, key=lambda event: event.order, default=None)
        contract = ContractTerms.of(latest.instrument) if latest else DEFAULT_TERMS
        row = reported_trade(terms, trade, skill_version, id_, contract)
        row = _with_excursions(terms, trade, contract, row, [known for known in held if known.known_at <= moment])
        until = moments[n + 1] if n + 1 < len(moments) else voided_at
        if found and found[-1].trade == row:
            found[-1] = TradeVersion(row, found[-1].known_from, until, None)
        else:
            found.append(TradeVersion(row, moment, until, None))
    return found


def _with_excursions(
    terms: AccountTerms, trade: ClosedTrade, contract: ContractTerms, row: Trade, bars: Sequence[KnownBar]
) -> Trade:
    """The trade with how far it ran, as far as bars show it."""
    if not bars or trade.exit_price is None:
        return row
    if not contract.admits(trade.entry_price) or not contract.admits(trade.exit_price):
        return row
    with localcontext(MONEY):
        qty = trade.qty if trade.qty is not None else ONE
        side = 1 if trade.side == "long" else -1
        round_ = Round(
            opened_by="", seq=0, side=side, entry_at=trade.entry_at, skill_version=1, known_at=trade.exit_at, terms=contract
        )
        round_.enter(qty, trade.entry_price, ZERO, trade.rate, inferred=False)
        round_.remember(trade.entry_at)
        round_.leave(qty, trade.exit_price, ZERO, trade.rate, inferred=False)
        round_.exit_at = trade.exit_at
        round_.witness(round_.realized)
        round_.watch(bars, terms.mfe_mode, Rates([(trade.entry_at, trade.rate)]))
        scale = ONE
        if trade.pnl is not None and (trade.qty is None or round_.realized):
            # The source states the money: where its prices give another amount, they lack a multiplier or a rate.
            if not round_.realized or trade.pnl / round_.realized <= 0:
                return row
            scale = trade.pnl / round_.realized
        mfe, mae, risk = round_.mfe * scale, round_.mae * scale, row.initial_risk_usd
        return row._replace(
            mfe_usd=mfe, mae_usd=mae, mfe_r=mfe / risk if risk else None, mae_r=mae / risk if risk else None,
            excursion_method=terms.mfe_mode,
        )  # fmt: skip


def reported_trade(
    terms: AccountTerms, trade: ClosedTrade, skill_version: int, id_: TradeId, contract: ContractTerms = DEFAULT_TERMS
) -> Trade:
    """A trade that its source reports whole: with the figures of the source, computed where it states none."""
    size = gross = risk = None
    side = 1 if trade.side == "long" else -1
    with localcontext(MONEY):
        priced = trade.exit_price is None or contract.admits(trade.exit_price)
        if trade.qty is not None and contract.admits(trade.entry_price) and priced:
            entry = contract.weight(trade.entry_price, trade.qty)
            size = abs(entry) * contract.multiplier * trade.rate
            if trade.exit_price is not None:
                gross = contract.gain(side, entry, contract.weight(trade.exit_price, trade.qty)) * trade.rate
            if trade.stop is not None and contract.admits(trade.stop):
                risk = max(-contract.gain(side, entry, contract.weight(trade.stop, trade.qty)) * trade.rate, ZERO) or None
        gross = gross if trade.pnl is None else trade.pnl
        net = None if gross is None else gross - trade.fees + trade.funding
        percent = 100 * net / size if net is not None and size else None
        in_r, source = (net / risk, "stop") if net is not None and risk else (None, "stop" if risk else None)
        if in_r is None and trade.pnl_r is not None:
            in_r, source = Decimal(repr(trade.pnl_r)), "stated"
            # What was risked follows from the result in money and in R, unless they contradict each other.
            risk = risk or (net / in_r if net is not None and net * in_r > 0 else None)
    situation = trade.situation
    return Trade(
        id=id_, agent=terms.agent, skill_id=terms.skill_id, skill_version=skill_version,
        strategy=trade.strategy or terms.skill_id, symbol=trade.symbol, leg=trade.trade_id, side=trade.side,
        currency=terms.currency, status="closed", entry_tick_at=None, entry_at=trade.entry_at,
        entry_item=f"trade:{trade.trade_id}", entry_seq=0,
        entry_price=trade.entry_price, entry_size_usd=size, entry_leverage=trade.leverage,
        entry_reason=trade.entry_reason, entry_decision=None, exit_tick_at=None, exit_at=trade.exit_at,
        exit_price=trade.exit_price, exit_reason=trade.exit_reason, exit_decision=None, close_cause="reported",
        exit_trigger=trade.trigger, qty_entered=trade.qty, qty_exited=trade.qty,
        qty_open=None if trade.qty is None else Decimal(0), avg_cost=None, stop_price=trade.stop,
        target_price=trade.target, initial_risk_usd=risk, r_source=source,
        holding_minutes=minutes(trade.exit_at - trade.entry_at), realized_pnl_usd=gross, fees_usd=trade.fees,
        funding_usd=trade.funding, net_pnl_usd=net,
        pnl_pct=percent, pnl_r=in_r,
        mfe_usd=None, mae_usd=None, mfe_r=None, mae_r=None, excursion_method=None,
        entry_regime=situation.regime if situation else None,
        entry_volatility=situation.volatility_regime if situation else None,
        entry_session=situation.session if situation else None, exit_regime=None,
        quality="reported", adopted=False, liquidation_fills=0, tags=trade.tags, teach="learn",
        confidence=trade.confidence, reflection=trade.note,
        entry_situation=canonical(situation) if situation else None,
        accounting=contract.accounting, payoff=contract.payoff, multiplier=contract.multiplier, rate=trade.rate,
    )  # fmt: skip


def claimed_trade(terms: AccountTerms, claim: Claim, skill_version: int, id_: TradeId) -> Trade:
    """A trade as the agent reports it, open or closed; `pnl` is net, as the agent states it."""
    assert claim.entry_at is not None and claim.trade_id is not None
    side = 1 if claim.side == "long" else -1
    size = net = risk = in_r = None
    with localcontext(MONEY):
        if claim.qty is not None:
            size = claim.entry_price * claim.qty
            if claim.stop is not None:
                risk = abs(claim.entry_price - claim.stop) * claim.qty or None
            if claim.exit_price is not None:
                net = side * (claim.exit_price - claim.entry_price) * claim.qty
        net = net if claim.pnl is None else claim.pnl
        source = "stop"
        if claim.pnl_r is not None:
            in_r, source = Decimal(repr(claim.pnl_r)), "stated"
        elif net is not None and risk:
            in_r = net / risk
        elif claim.exit_price is not None and claim.stop is not None:
            in_r = side * (claim.exit_price - claim.entry_price) / abs(claim.entry_price - claim.stop)
        if risk is None and net is not None and in_r:
            risk = abs(net / in_r) or None
        percent = 100 * net / size if net is not None and size else None
    situation, closed = claim.situation, claim.exit_price is not None
    held = minutes(claim.exit_at - claim.entry_at) if closed and claim.exit_at and claim.exit_at > claim.entry_at else None
    return Trade(
        id=id_, agent=terms.agent, skill_id=terms.skill_id, skill_version=skill_version,
        strategy=claim.strategy or terms.skill_id, symbol=claim.symbol, leg=claim.trade_id, side=claim.side,
        currency=terms.currency, status="closed" if closed else "open", entry_tick_at=None, entry_at=claim.entry_at,
        entry_item=f"claim:{claim.trade_id}", entry_seq=0, entry_price=claim.entry_price, entry_size_usd=size,
        entry_leverage=None, entry_reason=claim.note, entry_decision=None, exit_tick_at=None,
        exit_at=claim.exit_at if closed else None, exit_price=claim.exit_price, exit_reason=None, exit_decision=None,
        close_cause="claimed" if closed else None, exit_trigger=None, qty_entered=claim.qty,
        qty_exited=claim.qty if closed else None, qty_open=Decimal(0) if closed and claim.qty is not None else claim.qty,
        avg_cost=None, stop_price=claim.stop, target_price=claim.target, initial_risk_usd=risk,
        r_source=source if in_r is not None else None, holding_minutes=held, realized_pnl_usd=net, fees_usd=Decimal(0),
        funding_usd=Decimal(0), net_pnl_usd=net, pnl_pct=percent, pnl_r=in_r, mfe_usd=None,
        mae_usd=None if claim.mae is None else -abs(claim.mae), mfe_r=None, mae_r=None, excursion_method=None,
        entry_regime=situation.regime if situation else None,
        entry_volatility=situation.volatility_regime if situation else None,
        entry_session=situation.session if situation else None, exit_regime=None,
        quality="claimed", adopted=False, liquidation_fills=0, tags=claim.tags, teach="learn",
        confidence=claim.confidence, entry_situation=canonical(situation) if situation else None,
        reflection=claim.reflection, source=claim.source,
    )  # fmt: skip
