"""`memtape restore`: restores a backup file or an export into an empty store."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from memtape.compose import open_memory, store_address
from memtape.engine.proof.audit import Audit, verify_store
from memtape.engine.proof.transfer import restore_store
from memtape.errors import Conflict, Invalid, Tampered

SQLITE_HEADER = b"SQLite format 3\x00"


def restore_from(path: Path, db: str | None, owner: str | None) -> dict[str, Any]:
    """Restore, verify, and report the content of the store."""
    if not path.exists():
        raise Invalid("path", f"{path} does not exist", "Name a backup, a .jsonl export or an export folder")
    if path.is_file() and _starts_with(path, SQLITE_HEADER):
        return _copied(path, db, owner)
    with open_memory(db, owner) as memory:
        return _report(memory.url, restore_store(memory, path))


def _copied(path: Path, db: str | None, owner: str | None) -> dict[str, Any]:
    target = Path(store_address(db))
    if store_address(db).startswith("postgres"):
        raise Invalid("db", "is PostgreSQL; a backup file restores only into an embedded store", "Restore a jsonl export")
    if target.exists():
        raise Conflict("db", f"{target} exists already", "Name a new store")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
    with open_memory(str(target), owner) as memory:
        found = verify_store(memory)
        if not found.ok:
            first = found.problems[0]
            raise Tampered(url=str(path), problem=f"{first.table} {first.key}: {first.problem}")
        return _report(memory.url, found)


def _report(url: str, found: Audit) -> dict[str, Any]:
    return {"db": url, "ok": found.ok, "log_rows": found.log_rows, "rows": found.rows, "digests": found.digests}


def _starts_with(path: Path, header: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(header)) == header
