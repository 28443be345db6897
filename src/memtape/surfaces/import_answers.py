"""The answer of an import as JSON: what a file holds, its sums, and how its columns were read."""

from __future__ import annotations

from typing import Any

from memtape.brokers.importer import ImportResult
from memtape.brokers.record_totals import absurd_records, record_totals
from memtape.brokers.totals import AccountSums, FileTotals, absurd_totals, file_totals
from memtape.core.ledger.trades import money_text as money
from memtape.core.skills import DEFAULT_AGENT
from memtape.surfaces.answers import optional_time_text


def file_sums(result: ImportResult) -> tuple[dict[str, Any], list[str]]:
    """Returns the sums of a file as JSON, and what in them cannot be right."""
    if result.kind in ("trades", "fills"):
        totals = file_totals(result.found)
        return totals_json(totals), absurd_totals(result.found, totals)
    return record_totals(result.kind, result.found), absurd_records(result.found)


def totals_json(totals: FileTotals) -> dict[str, Any]:
    """Returns the sums of trades or fills as JSON."""

    def sums_json(sums: AccountSums) -> dict[str, Any]:
        return {"n": sums.n, "net_pnl": money(sums.net), "gross_pnl": money(sums.gross), "fees": money(sums.fees),
                "funding": money(sums.funding)}  # fmt: skip

    return {
        **sums_json(totals), "first": optional_time_text(totals.first), "last": optional_time_text(totals.last),
        "by_symbol": {symbol: {"n": sums.n, "net_pnl": money(sums.net)} for symbol, sums in totals.by_symbol.items()},
        "open": {symbol: money(qty) for symbol, qty in totals.open.items()},
    }  # fmt: skip


def mapping_json(result: ImportResult) -> dict[str, Any]:
    """Returns how the columns of a file were read. The notes are those of the result, so later ones are included."""
    return {"kind": result.kind, "by": result.mapped_by, "columns": result.mapping, "unused": result.unused,
            "notes": result.notes}  # fmt: skip


def new_agent_note(agent: str | None, commit: bool) -> str:
    """Returns the note that a commit creates the agent, or has created it.

    >>> new_agent_note("gold", commit=True)
    "the agent 'gold' was created, mode paper, skill main"
    """
    name = agent or DEFAULT_AGENT
    if commit:
        return f"the agent '{name}' was created, mode paper, skill main"
    return f"there is no agent '{name}' yet: a commit creates it, mode paper, skill main"
