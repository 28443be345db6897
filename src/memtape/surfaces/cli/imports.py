"""`memtape import` and `memtape imports` for people: the options as they are typed, and the answers as they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memtape.brokers.files import clean_name, load_file
from memtape.core.skills import DEFAULT_AGENT
from memtape.errors import Invalid
from memtape.surfaces.cli.sentences import store_option
from memtape.surfaces.file_imports import import_content

if TYPE_CHECKING:
    from memtape.engine import Memory

MAX_SYMBOLS = 10  # in the sums that a person reads


def run_import(memory: Memory, path: str | Path, **options: Any) -> dict[str, Any]:
    """Read a file from disk; with `commit`, import it. Returns what `memtape import --json` prints.

    The options are those of `import_content`.
    """
    return import_content(memory, load_file(path), **options)


def option_pairs(option: str, values: Sequence[str]) -> dict[str, str]:
    """Returns repeated options like `--map side=direction` as a mapping.

    >>> option_pairs("map", ["side=direction", "symbol==XAUUSD", "fees="])
    {'side': 'direction', 'symbol': '=XAUUSD', 'fees': ''}
    """
    found: dict[str, str] = {}
    for each in values:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise Invalid(option, f"'{each}' is not a pair", f"Write it like --{option} NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def import_text(found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an import's answer for people: one row for each kind of problem, with its first lines and what is wrong there."""
    rows = []
    for row in found["problems"]:
        lines = ", ".join(str(each["line"]) for each in row["examples"] if each["line"] is not None)
        more = ", ..." if lines and row["count"] > len(row["examples"]) else ""
        problems = "; ".join(dict.fromkeys(each["problem"] for each in row["examples"]))
        rows.append({"count": row["count"], "lines": lines + more, "field": row["field"], "problem": problems, "fix": row["fix"]})
    return {**found, "problems": rows, "totals": _short_totals(found["totals"])}


def _short_totals(totals: Mapping[str, Any]) -> dict[str, Any]:
    """The sums with the symbols that made or lost most, so that they fit a screen."""
    symbols: Mapping[str, Mapping[str, Any]] = totals.get("by_symbol") or {}
    if len(symbols) <= MAX_SYMBOLS:
        return dict(totals)
    largest = sorted(symbols, key=lambda name: -abs(Decimal(symbols[name].get("net_pnl") or 0)))[:MAX_SYMBOLS]
    more = f"{len(symbols) - MAX_SYMBOLS} more symbols; --json lists all"
    return {**totals, "by_symbol": {name: symbols[name] for name in largest}, "besides": more}


def import_sentence(found: Mapping[str, Any], file: str, agent: str, db: str | None = None) -> str:
    """Returns what a committed import did, and how it is taken back.

    >>> done = {"counts": {"trades": 3}, "new": 3, "duplicates": 0, "rows": 3, "batch": "3f0c"}
    >>> import_sentence(done, "trades.csv", "desk")
    'Imported 3 trades of trades.csv for the agent desk. Take it back: memtape imports undo 3f0c --agent desk'
    >>> import_sentence(done | {"new": 0, "duplicates": 3, "batch": None}, "trades.csv", "desk")
    'Nothing new: all 3 trades of trades.csv were known.'
    >>> import_sentence(done | {"new": 2, "duplicates": 1}, "trades.csv", "main")
    'Imported 2 of 3 trades of trades.csv for the agent main; 1 was known. Take it back: memtape imports undo 3f0c'
    """
    kinds = [kind for kind, n in found["counts"].items() if n]
    noun = kinds[0].replace("_", " ") if len(kinds) == 1 else "rows"
    new, known, name = found["new"], found["duplicates"], clean_name(file) or "the file"
    if not new:
        return f"Nothing new: all {known} {noun} of {name} were known."
    plural = noun.removesuffix("s") if new + known == 1 else noun
    what = f"{new} of {new + known} {noun}" if known else f"{new} {plural}"
    were = f"; {known} {'was' if known == 1 else 'were'} known" if known else ""
    undo = f"memtape imports undo {found['batch']}" + ("" if agent == DEFAULT_AGENT else f" --agent {agent}")
    return f"Imported {what} of {name} for the agent {agent}{were}. Take it back: {undo}{store_option(db)}"


def undo_sentence(done: Mapping[str, Any]) -> str:
    """Returns what an undo took back.

    >>> undo_sentence({"file": "trades.csv", "batch": "3f0c", "took_back": {"trade": 3, "decision": 1}, "duplicate": False})
    'Took back trades.csv (3f0c): 1 decision, 3 trades. They no longer count; the file can be imported again.'
    """
    counts = [f"{n} {kind.replace('_', ' ')}{'' if n == 1 else 's'}" for kind, n in sorted(done["took_back"].items())]
    what = f"{clean_name(done['file']) or 'the import'} ({done['batch']}): {', '.join(counts) or 'nothing'}"
    if done["duplicate"]:
        return f"Was taken back before: {what}."
    return f"Took back {what}. They no longer count; the file can be imported again."
