"""`memtape import` and `memtape imports` for people: the options as they are typed, and the answers as they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memtape.brokers.files import clean_name, load_file
from memtape.errors import Invalid
from memtape.surfaces.file_imports import import_content

if TYPE_CHECKING:
    from memtape.engine import Memory


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
    return {**found, "problems": rows}


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
