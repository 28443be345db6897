"""Compares what memtape makes of files of trades with what the files themselves state, as a table in Markdown.

    .venv/bin/python -m tools.compare_trade_files FOLDER [--zone America/New_York]

Every file is imported into a memory in RAM. Our net is that of the ledger, realised by closed and open trades. The file's own
net is the sum of its column of profits, or what its column of cash says was realised. A difference is listed by symbol, with the
reason where the rows show it.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import memtape
from memtape.brokers.files import load_file
from memtape.core.codec import decimal_text
from memtape.core.ledger.trades import round_money
from memtape.errors import Invalid
from memtape.surfaces.cli.imports import run_import

PROFIT_COLUMNS = ("realized_net_pnl", "net_pnl", "net_profit", "pnl", "PnL", "profit")
NOT_CLOSED = ("unclosed", "open")
CENT = Decimal("0.01")
ZERO = Decimal(0)


@dataclass(slots=True)
class StatedNet:
    """The net that a file states, in total and by symbol."""

    how: str
    by_symbol: dict[str, Decimal] = field(default_factory=dict)

    def add(self, symbol: str, amount: Decimal) -> None:
        """Add an amount to a symbol."""
        self.by_symbol[symbol] = self.by_symbol.get(symbol, ZERO) + amount

    @property
    def net(self) -> Decimal:
        """The total."""
        return sum(self.by_symbol.values(), ZERO)


def stated_net(path: Path) -> StatedNet | None:
    """Returns the file's own net; None if it states none."""
    rows = _rows(path)
    if not rows:
        return None
    column = next((name for name in PROFIT_COLUMNS if name in rows[0]), None)
    if column:
        stated = StatedNet(f"sum of {column}")
        for row in rows:
            if row.get(column) and row.get("status") not in NOT_CLOSED:
                stated.add(_symbol(row), Decimal(row[column]))
        return stated
    return _net_from_cash(rows) if "cash_after" in rows[0] else None


def _net_from_cash(rows: Iterable[Mapping[str, str]]) -> StatedNet:
    """Returns what accounts realised: their cash at the end, plus the cost of what they hold, less the cash at the start."""
    first: dict[str, Decimal] = {}
    last: dict[str, Decimal] = {}
    held: dict[tuple[str, str], tuple[Decimal, Decimal]] = {}  # quantity, cost
    for row in rows:
        account, cash = row["model"], Decimal(row["cash_after"])
        first.setdefault(account, cash)
        last[account] = cash
        if row["action"] in ("buy", "sell") and row["implied_price"]:
            key, traded, price = (account, row["symbol"]), Decimal(row["amount"]), Decimal(row["implied_price"])
            qty, cost = held.get(key, (ZERO, ZERO))
            if row["action"] == "buy":
                held[key] = qty + traded, cost + traded * price
            else:
                held[key] = qty - traded, cost - (cost / qty * traded if qty else ZERO)
    stated = StatedNet("cash at the end + cost of what is held - cash at the start")
    for account in first:
        cost = sum((cost for (name, _), (_, cost) in held.items() if name == account), ZERO)
        stated.add(account, last[account] + cost - first[account])
    return stated


def _rows(path: Path) -> list[dict[str, str]]:
    text = load_file(path).text
    if text.lstrip()[:1] == "{":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return list(csv.DictReader(io.StringIO(text)))


def _symbol(row: Mapping[str, str]) -> str:
    return str(next((row[name] for name in ("symbol", "Ticker", "ticker") if row.get(name)), ""))


def compare(path: Path, zone: str) -> tuple[str, ...]:
    """Returns the cells of a file's row: name, rows, trades, our net, the file's own, the difference, why."""
    with memtape.open(":memory:") as memory:
        try:
            found = run_import(memory, path, agent="desk", zone=zone, skip_bad=True, commit=True)
        except Invalid as refused:
            return path.name, "", "", "", "", "", f"not a file of trades: {refused.errors[0].problem}"
        trades = memory.agent("desk").ledger.trades()
    ours: dict[str, Decimal] = {}
    stated = stated_net(path)
    by_account = stated is not None and stated.how.startswith("cash")
    for trade in trades:
        name = trade.leg if by_account else trade.symbol
        ours[name] = ours.get(name, ZERO) + (trade.net_pnl_usd or ZERO)
    net = round_money(sum(ours.values(), ZERO))
    counted = f"{found['trades'] or len(trades)}"
    why = _why(ours, stated, found["problems"])
    own = "" if stated is None else decimal_text(round_money(stated.net))
    difference = "" if stated is None else decimal_text(round_money(net - stated.net))
    return path.name, str(found["rows"]), counted, decimal_text(net), own, difference, why


def _why(ours: Mapping[str, Decimal], stated: StatedNet | None, problems: Iterable[Mapping[str, object]]) -> str:
    reasons = [f"{each['count']} rows: {each['problem']}" for each in problems if each["line"] is not None]
    if stated is None:
        return "; ".join(["the file states no net", *reasons])
    apart = {name: ours.get(name, ZERO) - own for name, own in stated.by_symbol.items()}
    apart = {name: amount for name, amount in sorted(apart.items()) if abs(amount) >= CENT}
    named = [f"{name} {amount:+.2f}" for name, amount in apart.items()]
    return "; ".join([stated.how, *(["by name: " + ", ".join(named)] if named else []), *reasons])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--zone", default="America/New_York", help="of times without a zone")
    given = parser.parse_args()
    print("| file | rows | trades | our net | the file's own | difference | why |\n|---|---|---|---|---|---|---|")
    for path in sorted(given.folder.iterdir()):
        if path.is_file():
            print("| " + " | ".join(compare(path, given.zone)) + " |")


if __name__ == "__main__":
    main()
