"""The import desk: files written on the spot, and what memtape makes of them."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import memtape
from memtape.brokers.files import unpack_file
from memtape.brokers.formats import read_file
from memtape.brokers.importer import ImportOptions, ImportProblem, ImportResult
from memtape.core.codec import decimal_text, time_text
from memtape.core.fills import Fill
from memtape.core.observed import ClosedTrade
from memtape.engine import Memory
from memtape.plugs.clock import FixedClock

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "trades"
TRADES = "symbol,side,entry_time,exit_time,entry_price,exit_price,qty\n"
FILLS = "id,time,symbol,side,qty,price,fee\n"


def read(text: str | bytes, name: str = "trades.csv", **options: Any) -> ImportResult:
    """Read a file's content."""
    data = text.encode() if isinstance(text, str) else text
    return read_file(unpack_file(name, data), ImportOptions(**options))[1]


def read_trade(header: str, row: str, **options: Any) -> ClosedTrade:
    """The one closed trade of a file of one row."""
    reading = read(f"{header}\n{row}\n", **options)
    assert [p for p in reading.problems if p.blocks] == []
    (found,) = reading.found
    assert isinstance(found.value, ClosedTrade)
    return found.value


def read_fill(header: str, row: str, **options: Any) -> Fill:
    """The one fill of a file of one row."""
    reading = read(f"{header}\n{row}\n", **options)
    assert [p for p in reading.problems if p.blocks] == []
    (found,) = reading.found
    assert isinstance(found.value, Fill)
    return found.value


def values_read(reading: ImportResult) -> list[str]:
    """The values of a file, in the language of the desk."""
    lines: list[str] = []
    for each in reading.found:
        v = each.value
        if isinstance(v, Fill):
            lines.append(f"{v.side} {decimal_text(v.qty)} {v.symbol} @ {decimal_text(v.px)} {time_text(v.t)}")
        else:
            size = "" if v.qty is None else f"{decimal_text(v.qty)} "
            lines.append(f"{v.side} {size}{v.symbol} {decimal_text(v.entry_price)} -> {decimal_text(v.exit_price)}")
    return lines


def problem_line(problem: ImportProblem) -> str:
    """A problem as one line."""
    return f"{problem.line}: {problem.field}: {problem.problem}. {problem.fix}"


def given_memory(now: datetime = NOON, **settings: Any) -> Memory:
    """A memory in RAM with an agent named desk."""
    memory = memtape.open(":memory:", clock=FixedClock(now))
    memory.create_skill("plain")
    memory.create_agent("desk", skill="plain", mode="sim", settings=settings)
    return memory


def write_file(folder: Path, text: str | bytes, name: str = "trades.csv") -> Path:
    """Write a file, compressed if its name ends in .gz."""
    data = text.encode() if isinstance(text, str) else text
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def ledger(memory: Memory) -> list[Mapping[str, Any]]:
    """Every trade of the desk, whole."""
    return sorted(
        (trade._asdict() for trade in memory.agent("desk").ledger.trades()), key=lambda row: (row["entry_at"], row["id"])
    )
