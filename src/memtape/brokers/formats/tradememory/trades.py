"""A journal's trades -> claims.

The package writes one `timestamp` with different meanings. Beside an `exit_timestamp` it is the entry. Alone, on a closed trade,
it is the time of the report, so the exit; in a replay it is the entry. Sizes may be in lots. The value of a price move decides,
as for any file (`figures`), because a size or an R in the wrong unit is wrong by orders of magnitude.

>>> row = {"id": "R-2", "timestamp": "2026-03-05T13:00:00Z", "direction": "short", "entry_price": 1.085, "exit_price": 1.081,
...        "hold_duration_seconds": 16200, "pnl": 40.0, "context_json": '{"symbol": "EURUSD"}'}
>>> [found] = read_trades(JournalCells(), [], [(1, row)])
>>> str(found.value.entry_at), found.value.side, found.value.source
('2026-03-05 08:30:00+00:00', 'short', 'tradememory')
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from typing import TypedDict

from memtape.brokers.figures import TradeDraft, complete_figures
from memtape.brokers.formats.tradememory.cells import FORMAT, MAX_LABEL_CHARS, JournalCells
from memtape.brokers.formats.tradememory.database import FIX_ROW, JournalRow
from memtape.brokers.importer import FoundRow, ImportProblem
from memtape.brokers.mapping import ColumnMapping
from memtape.core.observed import READERS, Situation
from memtape.core.values import MONEY, ZERO, read
from memtape.errors import Invalid

MAX_TAGS = 16
MAX_HOLD_SECONDS = 10**9  # a larger number is not a duration
_STOP_FIELDS = ("protective_stop_price", "stop_loss", "stop", "sl", "stop_price")
_TARGET_FIELDS = ("take_profit", "target", "tp", "target_price")
_SHORT_WORDS = ("short", "sell")


class JournalTrade(TypedDict):
    """The fields of a claim, before its sizes and times are complete."""

    trade_id: str
    symbol: str
    side: object  # checked when the claim is read
    entry_price: Decimal
    exit_price: Decimal | None
    entry_at: datetime | None
    exit_at: datetime | None
    pnl: Decimal | None
    pnl_r: float | None
    qty: Decimal | None
    strategy: str | None
    stop: Decimal | None
    target: Decimal | None
    note: str | None
    situation: Situation
    confidence: Decimal | None
    reflection: str | None
    mae: Decimal | None
    tags: tuple[str, ...]
    source: str


def read_trades(
    cells: JournalCells, records: Sequence[tuple[int, JournalRow]], episodes: Sequence[tuple[int, JournalRow]]
) -> list[FoundRow]:
    """Returns every trade once, records first."""
    episode_rows = {row["id"]: row for _, row in episodes}
    recorded = {row["id"] for _, row in records}
    rows = [("trade_records", line, row, row, episode_rows.get(row["id"], {})) for line, row in records]
    rows += [("episodic_memory", line, row, {}, row) for line, row in episodes if row["id"] not in recorded]
    drafts: list[tuple[str, int, JournalRow, JournalTrade]] = []
    for table, line, row, trade, episode in rows:
        try:
            drafts.append((table, line, row, trade_from_journal(cells, trade, episode)))
        except Invalid as error:
            cells.refuse(table, line, row, error)
    wrong = _convert_sizes([fields for *_, fields in drafts], cells.notes)
    _add_notes(cells, len(recorded & set(episode_rows)), [fields for *_, fields in drafts])
    found: list[FoundRow] = []
    for number, (table, line, row, fields) in enumerate(drafts):
        try:
            if number in wrong:
                raise Invalid("pnl", wrong[number], "Correct side, prices or pnl in the file")
            start = fields["entry_at"] or fields["exit_at"]
            found.append(FoundRow(line, read(READERS["claim"], {**fields, "entry_at": start})))
        except Invalid as error:
            cells.refuse(table, line, row, error)
    return found


def _add_notes(cells: JournalCells, both: int, trades: Sequence[JournalTrade]) -> None:
    if both:
        cells.notes.append(f"{both} trades are in trade_records and in episodic_memory: each is imported once")
    if single := sum(trade["entry_at"] is None for trade in trades):
        cells.notes.append(f"{single} closed trades have only one time: it is read as their exit")
    if trades:
        cells.notes.append("the context of a trade is read as that of its entry")


def trade_from_journal(cells: JournalCells, trade: JournalRow, episode: JournalRow) -> JournalTrade:
    """Returns a claim's fields from a record, an episode or both. The record has precedence."""
    context = {**cells.object(episode, "context_json"), **cells.object(trade, "market_context")}
    either = {**{k: v for k, v in episode.items() if v is not None}, **{k: v for k, v in trade.items() if v is not None}}
    prices = (cells.number(row, name) for row, name in ((context, "entry_price"), (context, "price"), (episode, "entry_price")))
    entry = next((price for price in prices if price), None)
    if entry is None:
        raise Invalid("market_context" if trade else "entry_price", "has no entry price", FIX_ROW)
    exit_price = cells.number(either, "exit_price")
    start, end = _trade_times(cells, trade, episode, context, closed=exit_price is not None)
    symbol = cells.text(trade, "symbol", MAX_LABEL_CHARS) or cells.text(context, "symbol", MAX_LABEL_CHARS) or cells.symbol
    if symbol is None:
        raise Invalid("context_json", "names no symbol", "Give it, like --symbol XAUUSD")
    size = next((qty for row in (trade, episode) if (qty := cells.number(row, "lot_size"))), None)
    return {
        "trade_id": cells.key(either), "symbol": symbol, "side": either.get("direction"), "entry_price": entry,
        "exit_price": exit_price, "entry_at": start, "exit_at": end, "pnl": cells.number(either, "pnl"),
        "pnl_r": cells.level(either, "pnl_r"), "qty": size, "strategy": cells.text(either, "strategy", MAX_LABEL_CHARS),
        "stop": cells.number(context, *_STOP_FIELDS), "target": cells.number(context, *_TARGET_FIELDS),
        "note": cells.text(trade, "reasoning") or cells.text(context, "description"),
        "situation": _situation(cells, episode, context, symbol, entry), "confidence": cells.number(either, "confidence"),
        "reflection": cells.text(trade, "lessons") or cells.text(episode, "reflection") or cells.text(trade, "exit_reasoning"),
        "mae": cells.number(episode, "max_adverse_excursion"), "tags": _tags(cells, either), "source": FORMAT,
    }  # fmt: skip


def _trade_times(
    cells: JournalCells, trade: JournalRow, episode: JournalRow, context: JournalRow, *, closed: bool
) -> tuple[datetime | None, datetime | None]:
    """Returns entry and exit time, as far as the file has them."""
    recorded, reported, left = cells.time(trade, "timestamp"), None, cells.time(trade, "exit_timestamp")
    if recorded is None or left is None:
        reported = cells.time(episode, "timestamp")
    only = recorded or reported
    if only is None:
        raise Invalid("timestamp", "is empty", FIX_ROW)
    if not closed:
        return only, None
    if left is not None:
        return only, left
    # The record has the entry, the episode the exit.
    if recorded is not None and reported is not None and trade.get("exit_price") is None and reported > recorded:
        return recorded, reported
    held = _holding_time(cells, trade, episode)
    if context.get("source") == "replay_engine" and held is not None:
        return only, only + held
    return cells.time(context, "entry_time") or (only - held if held is not None else None), only


def _holding_time(cells: JournalCells, trade: JournalRow, episode: JournalRow) -> timedelta | None:
    """Returns the holding time: in seconds in the episode, or in minutes in the record."""
    seconds, minutes = cells.number(episode, "hold_duration_seconds"), cells.number(trade, "hold_duration")
    held = seconds if seconds is not None else None if minutes is None else minutes * 60
    return timedelta(seconds=float(held)) if held is not None and 0 <= held < MAX_HOLD_SECONDS else None


def _situation(cells: JournalCells, episode: JournalRow, context: JournalRow, symbol: str, entry: Decimal) -> Situation:
    def label(name: str) -> str | None:
        return cells.label({name: episode.get(f"context_{name}")}, name) or cells.label(context, name)

    # The package writes 0 for an unknown ATR.
    def atr(name: str, *others: str) -> float | None:
        return cells.level(episode, f"context_{name}") or cells.level(context, name, *others) or None

    return read(Situation, {
        "symbol": symbol, "price": float(entry), "regime": label("regime"), "volatility_regime": label("volatility_regime"),
        "session": label("session"), "atr_d1": atr("atr_d1", "atr_daily"), "atr_h1": atr("atr_h1", "atr_hourly"),
        "atr_m5": atr("atr_m5"),
    })  # fmt: skip


def _tags(cells: JournalCells, row: JournalRow) -> tuple[str, ...]:
    listed = cells.json(row, "tags")
    words = [cells.text({"tag": each}, "tag", MAX_LABEL_CHARS) for each in listed] if isinstance(listed, list) else []
    return tuple(dict.fromkeys(word for word in words if word))[:MAX_TAGS]


# ---- sizes -----------------------------------------------------------------------------------------------------------


def _convert_sizes(trades: Sequence[JournalTrade], notes: list[str]) -> dict[int, str]:
    """Convert sizes to units and drop moved stops. Returns the trades that contradict themselves, by number, with the reason."""
    closed = {n: _draft(n, t) for n, t in enumerate(trades) if t["exit_price"] is not None and t["pnl"] is not None}
    sizes = {n: draft.qty for n, draft in closed.items()}
    figure_notes: list[str] = []
    problems: list[ImportProblem] = []
    complete_figures(
        list(closed.values()), ColumnMapping("trades", {"net_pnl": (0,)}, {}, {}, FORMAT), False, figure_notes, problems
    )
    units: dict[str, Decimal | None] = {}
    with localcontext(MONEY):
        for n, draft in closed.items():
            if before := sizes[n]:
                units[draft.symbol] = None if draft.qty is None else draft.qty / before
        unsized = [trade for trade in trades if trade["qty"] is not None and trade["symbol"] not in units]
        for trade in trades:
            unit = units.get(trade["symbol"])
            trade["qty"] = trade["qty"] * unit if trade["qty"] is not None and unit is not None else None
    notes += [note for note in figure_notes if "qty" in note]
    if unsized:
        notes.append(f"qty of {len(unsized)} trades is left out: no closed trade of their symbol shows the size of a lot")
    _drop_moved_stops(trades, notes)
    return {problem.line or 0: problem.problem for problem in problems}


def _draft(number: int, trade: JournalTrade) -> TradeDraft:
    assert trade["exit_at"] is not None and trade["exit_price"] is not None
    return TradeDraft(row=number, line=number, symbol=trade["symbol"], side=_side(trade), entry_at=trade["exit_at"],
                 exit_at=trade["exit_at"], entry=trade["entry_price"], exit=trade["exit_price"], qty=trade["qty"], pnl=None,
                 net=trade["pnl"], fees=ZERO, funding=ZERO, stop=None)  # fmt: skip


def _side(trade: JournalTrade) -> int:
    return -1 if str(trade["side"]).lower() in _SHORT_WORDS else 1


def _drop_moved_stops(trades: Sequence[JournalTrade], notes: list[str]) -> None:
    """Drop stops beyond the entry: they were moved there later and do not show the initial risk. 0 means no stop."""
    moved = 0
    for trade in trades:
        if trade["stop"] is not None and (not trade["stop"] or _side(trade) * (trade["entry_price"] - trade["stop"]) <= 0):
            moved += bool(trade["stop"])
            trade["stop"] = None
    if moved:
        notes.append(f"stops of {moved} trades are beyond the entry, so they were moved later: left out")
