"""The commands that keep a store: `backup`, `restore`, `export`, `verify`, `rebuild` and `migrate`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from memtape.store.private_files import open_private
from memtape.surfaces.cli import printing
from memtape.surfaces.cli.options import Db, Json, Owner, open_store
from memtape.surfaces.cli.printing import answer, print_sentence, reporting
from memtape.surfaces.cli.sentences import rebuild_sentence, restore_sentence, verify_sentence


def verify(
    db: Db = None, owner: Owner = None, as_json: Json = False,
    against: Annotated[Path | None, typer.Option(help="Heads exported earlier: detects removed rows at the end.")] = None,
    export_heads: Annotated[Path | None, typer.Option(help="Write the heads to this file.")] = None,
) -> None:  # fmt: skip
    """Recompute the hash chain and every projection and report the first bad row. Exit code 4 if anything was altered."""
    with reporting(as_json), open_store(db, owner) as memory:
        from memtape.engine.proof.audit import verify_store as prove

        heads = _heads(against) if against else []
        found = prove(memory, heads)
        if export_heads:
            with open_private(export_heads) as file:
                file.write(json.dumps({"heads": found.heads}, indent=1) + "\n")
        print_audit(_audit(found), as_json, verify_sentence)
        if not found.ok:
            raise typer.Exit(4)
        if found.needs_rebuild:
            raise typer.Exit(1)


def _heads(file: Path) -> list[dict[str, Any]]:
    from memtape.errors import Invalid

    try:
        heads = json.loads(file.read_text(encoding="utf-8"))["heads"]
        kinds = {"owner": str, "stream": str, "seq": int, "hash": str}
        # Heads of an earlier version have no count of shredded rows.
        counts = [{"shredded": int(head.get("shredded", 0))} for head in heads]
        return [{name: kind(head[name]) for name, kind in kinds.items()} | n for head, n in zip(heads, counts, strict=True)]
    except (OSError, ValueError, KeyError, TypeError):
        raise Invalid("against", f"{file} has no exported heads", "Create it with: memtape verify --export-heads FILE") from None


def _audit(found: Any) -> dict[str, Any]:
    problems = [
        {"owner": p.owner, "stream": p.stream, "table": p.table, "row": p.key, "problem": p.problem} for p in found.problems
    ]
    return {"ok": found.ok, "problems": problems, "log_rows": found.log_rows, "rows": found.rows, "heads": found.heads,
            "digests": found.digests, "needs_rebuild": found.needs_rebuild, "shredded": found.shredded,
            "shredded_since": found.shredded_since, "deletions": found.deletions}  # fmt: skip


def print_audit(found: Mapping[str, Any], as_json: bool, sentence: Callable[[Mapping[str, Any]], str]) -> None:
    """Print what was proved, and one sentence. The digests of tables are for programs: a terminal shows the rest."""
    for_people = printing.on_terminal() and not as_json
    answer({name: value for name, value in found.items() if name != "digests" or not for_people}, as_json)
    if not as_json:
        print_sentence(sentence(found))


def rebuild(db: Db = None, owner: Owner = None, as_json: Json = False) -> None:
    """Rebuild every projection from the log."""
    with reporting(as_json), open_store(db, owner) as memory:
        from memtape.engine.proof.audit import rebuild_store

        print_audit(_audit(rebuild_store(memory)), as_json, rebuild_sentence)


def backup(path: Annotated[Path, typer.Argument(help="A new file.")], db: Db = None, as_json: Json = False) -> None:
    """Copy an embedded store consistently, while others write to it."""
    with reporting(as_json), open_store(db) as memory:
        memory.database.backup(str(path))
        answer({"db": memory.url, "backup": str(path.absolute()), "bytes": path.stat().st_size}, as_json)


def restore(
    path: Annotated[Path, typer.Argument(help="A backup file, a .jsonl export or an export folder.")],
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Restore a backup or an export into an empty store, and verify it."""
    with reporting(as_json):
        from memtape.surfaces.cli.restore import restore_from

        print_audit(restore_from(path, db, owner), as_json, restore_sentence)


def export(
    path: Annotated[Path, typer.Argument(help="A new file (.jsonl, .csv, .parquet, .md), or a folder with --format.")],
    form: Annotated[str | None, typer.Option("--format", help="As jsonl, csv, parquet or markdown; default: its ending.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Only its trades: a .csv, .parquet or .md file.")] = None,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Export everything; the ending of the file is the format.

    A .jsonl file, and a folder with --format csv or parquet, can be restored, to the same digests. A .csv or .parquet file holds
    the trades, for a spreadsheet; a .md file is to be read.
    """
    with reporting(as_json), open_store(db, owner) as memory:
        from memtape.engine.proof.transfer import export_format, export_store

        chosen = export_format(path, form)
        answer({"path": str(path.absolute()), "format": chosen, "rows": export_store(memory, path, chosen, agent)}, as_json)


def migrate(db: Db = None, as_json: Json = False) -> None:
    """Migrate the store to the schema of this version. PostgreSQL is migrated only by this command."""
    with reporting(as_json):
        from memtape.compose import open_database
        from memtape.engine.proof.upgrade import upgrade_rules

        database = open_database(db, migrating=True)
        done, schema = database.migrate(), database.schema()
        database.close()
        # A change of rules rebuilds trades and memories: for every owner that this account may see.
        database = open_database(db)
        rebuilt = upgrade_rules(database)
        answer({"db": database.url, "schema": schema, "steps": done, "rebuilt": rebuilt}, as_json)
        database.close()
