"""Money that enters or leaves the perpetuals account that is followed, and funding.

Deposits, withdrawals and transfers are rows without a common shape. Only what enters or leaves that account is a cash flow.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from memtape.brokers.hyperliquid.names import DOLLAR_TOKEN, coin_symbol, time_from_millis
from memtape.brokers.hyperliquid.rows import FundingRow, UpdateRow
from memtape.core.codec import canonical, make_id
from memtape.core.fills import Funding
from memtape.core.observed import CashFlow
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY, ZERO, Number, read
from memtape.errors import Invalid


def funding_rows(payload: object) -> list[FundingRow]:
    """Returns the rows of an answer to userFunding."""
    return read(list[FundingRow], payload, at="userFunding")


def funding_from_answer(payload: object) -> list[Funding]:
    """Returns an answer to userFunding as payments, each once, by time. Coin and time identify a payment.

    >>> row = {"time": 1780574400000, "hash": "0x0", "delta": {"type": "funding", "coin": "ETH", "usdc": "-0.11"}}
    >>> [(paid.id, str(paid.usd)) for paid in funding_from_answer([row, row])]
    [('ETH-funding-1780574400000', '-0.11')]
    """
    paid = {(row.time, row.delta.coin): row for row in funding_rows(payload)}
    return [
        Funding(id=f"{coin}-funding-{time}", t=time_from_millis(time), symbol=coin_symbol(coin), usd=paid[time, coin].delta.usdc)
        for time, coin in sorted(paid)
    ]


@dataclass(frozen=True, slots=True)
class AccountFlows:
    """The cash flows of an account, and the kinds of updates whose effect on it is unknown."""

    flows: tuple[CashFlow, ...] = ()
    unread: tuple[str, ...] = ()


def cash_flows_from_answer(payload: object, address: str, dex: str = "") -> AccountFlows:
    """Returns an answer to userNonFundingLedgerUpdates as cash flows of one perpetuals account, each once, by time.

    One transaction may have several updates, so an update is identified by its time, its hash and its content. The venue adds
    kinds of updates without notice. A kind that is not known here, or a row of another shape, is named and not guessed at.

    >>> row = {"time": 1780574400000, "hash": "0xabc", "delta": {"type": "withdraw", "usdc": "499.0", "nonce": 1, "fee": "1.0"}}
    >>> [(flow.id, str(flow.usd)) for flow in cash_flows_from_answer([row, row], "0x" + "a" * 40).flows]
    [('withdraw-1780574400000-05c7ba6cbf70b3cb', '-500.0')]
    """
    found: dict[str, CashFlow] = {}
    unread: set[str] = set()
    for one in payload if isinstance(payload, list) else [payload]:
        delta = one.get("delta") if isinstance(one, Mapping) else None
        kind = str(delta.get("type", ""))[:64] if isinstance(delta, Mapping) else ""
        try:
            row = read(UpdateRow, one, at="userNonFundingLedgerUpdates")
            usd = _perpetuals_change(row.delta, address.lower(), dex)
        except (Invalid, KeyError):
            unread.add(kind or "without a kind")
            continue
        if usd:
            id_ = f"{row.delta['type']}-{row.time}-{make_id(row.hash, canonical(row.delta))}"
            found[id_] = CashFlow(id=id_, t=time_from_millis(row.time), usd=usd)
    return AccountFlows(tuple(sorted(found.values(), key=lambda flow: (flow.t, flow.id))), tuple(sorted(unread)))


# Updates that do not touch a perpetuals account: they move spot tokens, or repeat what the fills of a liquidation say.
_NOT_OF_PERPETUALS: Final = frozenset(("spotTransfer", "spotGenesis", "cStakingTransfer", "liquidation"))


def _perpetuals_change(delta: Mapping[str, Any], address: str, dex: str) -> Decimal:
    """Returns what an update adds to the perpetuals account. Raises KeyError if its kind or a field of it is not known."""
    kind = delta["type"]
    if kind in _NOT_OF_PERPETUALS:
        return ZERO
    if kind == "send":
        return _sent(delta, address, dex)
    if kind == "perpDexClassTransfer":
        own = delta["dex"] == dex and delta["token"] == DOLLAR_TOKEN
        return _signed(_amount(delta, "amount"), delta["toPerp"]) if own else ZERO
    # All other kinds move dollars of the venue's own exchange.
    change = _dollar_change(kind, delta, address)
    return change if dex == "" else ZERO


def _dollar_change(kind: str, delta: Mapping[str, Any], address: str) -> Decimal:
    vault = str(delta.get("vault", "")).lower() == address
    match kind:
        case "deposit":
            return _amount(delta, "usdc")
        case "withdraw":
            # `usdc` is what arrives outside: the fee leaves the account as well.
            return -MONEY.add(abs(_amount(delta, "usdc")), _fee_of(delta))
        case "accountClassTransfer":
            return _signed(_amount(delta, "usdc"), delta["toPerp"])
        case "internalTransfer" | "subAccountTransfer":
            usd, leaves, arrives = _amount(delta, "usdc"), _is(delta, "user", address), _is(delta, "destination", address)
            return MONEY.subtract(usd if arrives else ZERO, MONEY.add(usd, _fee_of(delta)) if leaves else ZERO)
        case "vaultCreate":
            return _amount(delta, "usdc") if vault else -MONEY.add(_amount(delta, "usdc"), _fee_of(delta))
        case "vaultDeposit":
            return _signed(_amount(delta, "usdc"), vault)
        case "vaultWithdraw":
            # The leader's commission leaves the vault with what the depositor gets.
            net = _amount(delta, "netWithdrawnUsd")
            return -MONEY.add(net, _amount(delta, "commission")) if vault else net
        case "vaultDistribution":
            return _signed(_amount(delta, "usdc"), not vault)
        case "vaultLeaderCommission":
            return _amount(delta, "usdc")
        case "rewardsClaim":
            # Rewards in another token than dollars are paid to the spot account.
            return _amount(delta, "amount") if delta.get("token") in (None, "", DOLLAR_TOKEN) else ZERO
    raise KeyError(kind)


def _sent(delta: Mapping[str, Any], address: str, dex: str) -> Decimal:
    """Returns the part of a send between accounts, exchanges and spot that concerns this account. The sender pays the fee."""
    leaves = _is(delta, "user", address) and delta["sourceDex"] == dex
    arrives = _is(delta, "destination", address) and delta["destinationDex"] == dex
    if not leaves and not arrives:
        return ZERO
    usd = _amount(delta, "amount" if delta["token"] == DOLLAR_TOKEN else "usdcValue")
    fee = _fee_of(delta) if delta.get("feeToken") in (None, "", DOLLAR_TOKEN) else ZERO
    return MONEY.subtract(usd if arrives else ZERO, MONEY.add(usd, fee) if leaves else ZERO)


def _is(delta: Mapping[str, Any], field: str, address: str) -> bool:
    return str(delta[field]).lower() == address


def _amount(delta: Mapping[str, Any], field: str) -> Decimal:
    return read(Number, delta[field], at=field)


def _fee_of(delta: Mapping[str, Any]) -> Decimal:
    return _amount(delta, "fee") if "fee" in delta else ZERO


def _signed(usd: Decimal, arrives: bool) -> Decimal:
    return usd if arrives else -usd
