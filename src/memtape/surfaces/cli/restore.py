"""`memtape restore`: restores a backup file or an export into an empty store."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memtape.compose import open_memory, store_address
from memtape.engine.proof.audit import Audit, verify_store
from memtape.engine.proof.transfer import restore_store
from memtape.errors import Conflict, Invalid, Tampered
from memtape.store.private_files import make_private_file, make_private_folder

SQLITE_HEADER = b"SQLite format 3\x00"
RESTORING = ".restoring-"  # stands between the name of a store and the id of the process that makes it


def restore_from(path: Path, db: str | None, owner: str | None) -> dict[str, Any]:
    """Restore, verify, and report the content of the store."""
    if not path.exists():
        raise Invalid("path", f"{path} does not exist", "Name a backup, a .jsonl export or an export folder")
    if path.is_file() and _starts_with(path, SQLITE_HEADER):
        return _copied(path, db, owner)
    where = store_address(db)
    if where.startswith("postgres") or Path(where).exists() or where == ":memory:":
        with open_memory(db, owner) as memory:
            return _report(memory.url, restore_store(memory, path))
    with _beside(Path(where)) as new, open_memory(str(new), owner) as memory:
        found = restore_store(memory, path)
    return _report(f"sqlite:///{where}", found)


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A name beside the store under which it is made; once it is whole, it gets the store's own name. Else nothing stays."""
    make_private_folder(target.parent)
    _remove_leftovers(target)
    new = target.with_name(f"{target.name}{RESTORING}{os.getpid()}")
    try:
        yield new
        # A link takes no name that exists, and the name appears with the whole file behind it.
        try:
            os.link(new, target)
        except FileExistsError:
            raise Conflict("db", f"{target} exists already", "Name a new store") from None
    finally:
        # The file itself, what SQLite keeps beside it, copies made before a migration, and its index of documents.
        for left in (*target.parent.glob(f"{new.name}*"), new.with_suffix(".docs.db")):
            if left.is_file():
                left.unlink()


def _remove_leftovers(target: Path) -> None:
    """Removes what restores of this store left that were killed: copies of all its data under names that nobody looks at."""
    for left in target.parent.glob(f"{target.name}{RESTORING}*"):
        pid = re.match(r"\d+", left.name.removeprefix(f"{target.name}{RESTORING}"))
        if pid is not None and left.is_file() and not _is_running(int(pid[0])):
            left.unlink()


def _is_running(pid: int) -> bool:
    if os.name != "posix":
        return True  # signal 0 asks only here
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _copied(path: Path, db: str | None, owner: str | None) -> dict[str, Any]:
    target = Path(store_address(db))
    if store_address(db).startswith("postgres"):
        raise Invalid("db", "is PostgreSQL; a backup file restores only into an embedded store", "Restore a jsonl export")
    if target.exists():
        raise Conflict("db", f"{target} exists already", "Name a new store")
    with _beside(target) as new:
        make_private_file(new)
        shutil.copyfile(path, new)
        with open_memory(str(new), owner) as memory:
            found = verify_store(memory)
        if not found.ok:
            first = found.problems[0]
            raise Tampered(url=str(path), problem=f"{first.table} {first.key}: {first.problem}")
    return _report(f"sqlite:///{target}", found)


def _report(url: str, found: Audit) -> dict[str, Any]:
    return {"db": url, "ok": found.ok, "log_rows": found.log_rows, "rows": found.rows, "digests": found.digests}


def _starts_with(path: Path, header: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(header)) == header
