"""A journal's trades -> claims.

The package writes one `timestamp` with different meanings. Beside an `exit_timestamp` it is the entry. Alone, on a closed
trade, it is when the trade was told, so its end; a replay's is the entry. Sizes may be lots: what a point was worth decides,
as for any file (`figures`), because a size or an R from the wrong unit is wrong by orders of magnitude.

>>> row = {"id": "R-2", "timestamp": "2026-03-05T13:00:00Z", "direction": "short", "entry_price": 1.085, "exit_price": 1.081,
...        "hold_duration_seconds": 16200, "pnl": 40.0, "context_json": '{"symbol": "EURUSD"}'}
>>> [found] = read_trades(Cells(), [], [(1, row)])
>>> str(found.value.entry_at), found.value.side, found.value.source
('2026-03-05 08:30:00+00:00', 'short', 'tradememory')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

from memtape.brokers.figures import Draft, complete_figures
from memtape.brokers.importer import ImportProblem
from memtape.brokers.mapping import Chosen
from memtape.brokers.tradememory.cells import FORMAT, LABEL, Cells
from memtape.brokers.tradememory.database import MEND, Row
from memtape.core.observed import READERS, Claim, Situation
from memtape.core.values import MONEY, ZERO, read
from memtape.errors import Invalid

TAGS = 16
LONGEST_HOLD = 10**9  # seconds; beyond it the number is no duration
_STOPS = ("protective_stop_price", "stop_loss", "stop", "sl", "stop_price")
_TARGETS = ("take_profit", "target", "tp", "target_price")
_SHORT = ("short", "sell")


@dataclass(frozen=True, slots=True)
class FoundTrade:
    """A trade and the row it came from."""

    line: int
    value: Claim


def read_trades(cells: Cells, records: Sequence[tuple[int, Row]], episodes: Sequence[tuple[int, Row]]) -> list[FoundTrade]:
    """Every trade once, records first."""
    lived = {row["id"]: row for _, row in episodes}
    recorded = {row["id"] for _, row in records}
    rows = [("trade_records", line, row, row, lived.get(row["id"], {})) for line, row in records]
    rows += [("episodic_memory", line, row, {}, row) for line, row in episodes if row["id"] not in recorded]
    drafts: list[tuple[str, int, Row, dict[str, Any]]] = []
    for table, line, row, trade, episode in rows:
        try:
            drafts.append((table, line, row, trade_from_journal(cells, trade, episode)))
        except Invalid as error:
            cells.refuse(table, line, row, error)
    wrong = _sized([fields for *_, fields in drafts], cells.notes)
    _tell(cells, len(recorded & set(lived)), [fields for *_, fields in drafts])
    found: list[FoundTrade] = []
    for number, (table, line, row, fields) in enumerate(drafts):
        try:
            if number in wrong:
                raise Invalid("pnl", wrong[number], "Correct side, prices or pnl in the file")
            start = fields["entry_at"] or fields["exit_at"]
            found.append(FoundTrade(line, read(READERS["claim"], fields | {"entry_at": start})))
        except Invalid as error:
            cells.refuse(table, line, row, error)
    return found


def _tell(cells: Cells, both: int, trades: Sequence[dict[str, Any]]) -> None:
    if both:
        cells.notes.append(f"{both} trades stand in trade_records and in episodic_memory: each is taken once")
    if told := sum(trade["entry_at"] is None for trade in trades):
        cells.notes.append(f"{told} closed trades have one time only: it is taken as their end")
    if trades:
        cells.notes.append("the context of a trade is taken as that of its entry")


def trade_from_journal(cells: Cells, trade: Row, episode: Row) -> dict[str, Any]:
    """One trade as a claim's fields, from its record, its episode or both; the record is asked first."""
    said = {**cells.object(episode, "context_json"), **cells.object(trade, "market_context")}
    either = {**{k: v for k, v in episode.items() if v is not None}, **{k: v for k, v in trade.items() if v is not None}}
    prices = (cells.number(row, name) for row, name in ((said, "entry_price"), (said, "price"), (episode, "entry_price")))
    entry = next((price for price in prices if price), None)
    if entry is None:
        raise Invalid("market_context" if trade else "entry_price", "holds no entry price", MEND)
    exit_price = cells.number(either, "exit_price")
    start, end = _when(cells, trade, episode, said, closed=exit_price is not None)
    symbol = cells.text(trade, "symbol", LABEL) or cells.text(said, "symbol", LABEL) or cells.symbol
    if symbol is None:
        raise Invalid("context_json", "names no symbol", "Say it with --symbol, like --symbol XAUUSD")
    size = next((qty for row in (trade, episode) if (qty := cells.number(row, "lot_size"))), None)
    return {
        "trade_id": cells.key(either), "symbol": symbol, "side": either.get("direction"), "entry_price": entry,
        "exit_price": exit_price, "entry_at": start, "exit_at": end, "pnl": cells.number(either, "pnl"),
        "pnl_r": cells.level(either, "pnl_r"), "qty": size, "strategy": cells.text(either, "strategy", LABEL),
        "stop": cells.number(said, *_STOPS), "target": cells.number(said, *_TARGETS),
        "note": cells.text(trade, "reasoning") or cells.text(said, "description"),
        "situation": _situation(cells, episode, said, symbol, entry), "confidence": cells.number(either, "confidence"),
        "reflection": cells.text(trade, "lessons") or cells.text(episode, "reflection") or cells.text(trade, "exit_reasoning"),
        "mae": cells.number(episode, "max_adverse_excursion"), "tags": _tags(cells, either), "source": FORMAT,
    }  # fmt: skip


def _when(cells: Cells, trade: Row, episode: Row, said: Row, *, closed: bool) -> tuple[datetime | None, datetime | None]:
    """When a trade began and ended, as far as the file says."""
    own, told, left = cells.time(trade, "timestamp"), None, cells.time(trade, "exit_timestamp")
    if own is None or left is None:
        told = cells.time(episode, "timestamp")
    only = own or told
    if only is None:
        raise Invalid("timestamp", "is empty", MEND)
    if not closed:
        return only, None
    if left is not None:
        return only, left
    if own is not None and told is not None and trade.get("exit_price") is None and told > own:
        return own, told  # opened in the record, its end is the episode's
    held = _held(cells, trade, episode)
    if said.get("source") == "replay_engine" and held is not None:
        return only, only + held
    return cells.time(said, "entry_time") or (only - held if held is not None else None), only


def _held(cells: Cells, trade: Row, episode: Row) -> timedelta | None:
    """How long, in seconds by the episode or in minutes by the record."""
    seconds, minutes = cells.number(episode, "hold_duration_seconds"), cells.number(trade, "hold_duration")
    found = seconds if seconds is not None else None if minutes is None else minutes * 60
    return timedelta(seconds=float(found)) if found is not None and 0 <= found < LONGEST_HOLD else None


def _situation(cells: Cells, episode: Row, said: Row, symbol: str, entry: Decimal) -> Situation:
    def label(name: str) -> str | None:
        return cells.label({name: episode.get(f"context_{name}")}, name) or cells.label(said, name)

    def atr(name: str, *others: str) -> float | None:  # the package writes 0 where it does not know
        return cells.level(episode, f"context_{name}") or cells.level(said, name, *others) or None

    return read(Situation, {
        "symbol": symbol, "price": float(entry), "regime": label("regime"), "volatility_regime": label("volatility_regime"),
        "session": label("session"), "atr_d1": atr("atr_d1", "atr_daily"), "atr_h1": atr("atr_h1", "atr_hourly"),
        "atr_m5": atr("atr_m5"),
    })  # fmt: skip


def _tags(cells: Cells, row: Row) -> tuple[str, ...]:
    listed = cells.json(row, "tags")
    words = [cells.text({"tag": each}, "tag", LABEL) for each in listed] if isinstance(listed, list) else []
    return tuple(dict.fromkeys(word for word in words if word))[:TAGS]


# ---- sizes -----------------------------------------------------------------------------------------------------------


def _sized(trades: Sequence[dict[str, Any]], notes: list[str]) -> dict[int, str]:
    """Put sizes into units and drop stops that were moved; which trades contradict themselves, by number, and how."""
    closed = {n: _draft(n, t) for n, t in enumerate(trades) if t["exit_price"] is not None and t["pnl"] is not None}
    sizes = {n: draft.qty for n, draft in closed.items()}
    told: list[str] = []
    problems: list[ImportProblem] = []
    complete_figures(list(closed.values()), Chosen("trades", {"net_pnl": (0,)}, {}, {}, FORMAT), False, told, problems)
    units: dict[str, Decimal | None] = {}
    with localcontext(MONEY):
        for n, draft in closed.items():
            if before := sizes[n]:
                units[draft.symbol] = None if draft.qty is None else draft.qty / before
        unsized = [trade for trade in trades if trade["qty"] is not None and trade["symbol"] not in units]
        for trade in trades:
            unit = units.get(trade["symbol"])
            trade["qty"] = trade["qty"] * unit if trade["qty"] is not None and unit is not None else None
    notes += [note for note in told if "qty" in note]
    if unsized:
        notes.append(f"qty of {len(unsized)} trades is left out: no closed trade of their symbol says what a lot holds")
    _stops(trades, notes)
    return {problem.line or 0: problem.problem for problem in problems}


def _draft(number: int, trade: dict[str, Any]) -> Draft:
    return Draft(row=number, line=number, symbol=trade["symbol"], side=_side(trade), entry_at=trade["exit_at"],
                 exit_at=trade["exit_at"], entry=trade["entry_price"], exit=trade["exit_price"], qty=trade["qty"], pnl=None,
                 net=trade["pnl"], fees=ZERO, funding=ZERO, stop=None)  # fmt: skip


def _side(trade: dict[str, Any]) -> int:
    return -1 if str(trade["side"]).lower() in _SHORT else 1


def _stops(trades: Sequence[dict[str, Any]], notes: list[str]) -> None:
    """A stop beyond the entry was moved there later, so it is not what was risked; 0 is none."""
    moved = 0
    for trade in trades:
        if trade["stop"] is not None and (not trade["stop"] or _side(trade) * (trade["entry_price"] - trade["stop"]) <= 0):
            moved += bool(trade["stop"])
            trade["stop"] = None
    if moved:
        notes.append(f"stops of {moved} trades lie beyond the entry: moved there later, left out")
