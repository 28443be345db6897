"""`memtape doctor`: checks the installation and the store, and reports what is empty and why."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memtape.compose import documents, open_memory, store_address, without_password, workspaces
from memtape.core.codec import time_text
from memtape.core.venue_coverage import READ_OF_VENUE, history_note, missing_notes
from memtape.engine.account_polls import followed_venue, venue_coverage
from memtape.engine.proof.projection_health import projection_problems, verification_problems
from memtape.errors import Damaged, MemtapeError
from memtape.store.private_files import exposed_paths
from memtape.store.schema import LATEST

NETWORK = {"nfs", "nfs4", "cifs", "smbfs", "smb3", "fuse.sshfs", "9p", "afs", "glusterfs", "fuse.glusterfs", "ceph"}
MIN_FREE_BYTES = 200 * 2**20
SLOW_FROM_ROWS = 20_000  # of the log: verifying them takes so long that it is said beforehand


def examine(db: str | None, *, quick: bool = False, on_slow: Callable[[int], None] = lambda rows: None) -> dict[str, Any]:
    """Returns every check with its result. `problems` has the failed ones; `notes` says what is empty and why.

    `quick` looks only for tables that are empty; else the store is verified. `on_slow` hears before that takes long, and how many
    rows it has.
    """
    checks: list[dict[str, Any]] = []
    problems: list[str] = []
    notes: list[str] = []

    def check(name: str, ok: bool, found: object, fix: str = "") -> None:
        checks.append({"check": name, "ok": ok, "found": str(found)})
        if not ok:
            problems.append(f"{name}: {str(found).rstrip('.')}. {fix}".strip())

    check("python", sys.version_info >= (3, 11), ".".join(map(str, sys.version_info[:3])), "memtape needs 3.11 or newer")
    where = store_address(db)
    embedded = not where.startswith("postgres")
    if embedded and where != ":memory:":
        folder = next(parent for parent in [Path(where).parent, *Path(where).parents] if parent.exists())
        free = shutil.disk_usage(folder).free
        check("disk", free > MIN_FREE_BYTES, f"{free // 2**20} MB free in {folder}", "Free some space")
        kind = _file_system(folder)
        check("file system", kind not in NETWORK, kind or "unknown", "SQLite's locks need a local disk. Move the store")
        exposed = exposed_paths(_own_files(Path(where), db))
        # Files of earlier versions work as before: this is a warning, not a failed check.
        check("file modes", True, ", ".join(map(str, exposed)) or "private")
        if exposed:
            names = ", ".join(map(str, exposed))
            notes.append(f"file modes: other users can read {names}. Run: chmod 600 on the files, 700 on the folders")
        if not Path(where).exists():
            notes.append(f"there is no store at {where} yet: the first write creates it")
    try:
        with open_memory(db) as memory:
            facts = memory.database.facts()
            check("store", True, facts["engine"])
            if embedded:
                version = tuple(int(part) for part in str(facts["engine"]).split()[1].split("."))
                check("sqlite version", version >= (3, 51, 3), ".".join(map(str, version)), "Upgrade apsw")
                check("writable", not facts["read_only"], "read-only" if facts["read_only"] else "yes", "Check permissions")
            found = memory.database.schema()
            check("schema", found == LATEST, f"{found} of {LATEST}", "Run: memtape migrate")
            if not facts["read_only"]:
                memory.resources.check_writable()
                check("lock", True, "free")
            if not quick and (rows := _log_rows(memory)) > SLOW_FROM_ROWS:
                on_slow(rows)
            wrong = (projection_problems if quick else verification_problems)(memory)
            check("projections", not wrong, "; ".join(wrong) or ("not empty" if quick else "follow from the log"))
            notes += _contents(memory, checks)
            missing = _missing_rules(memory)
            check("rules", not missing, "; ".join(missing) or "all pinned rules are there",
                  "Put them back, or confirm: memtape docs pin PATH, memtape docs unpin PATH")
            if memory.resources.has_documents:
                check("documents", *_index(memory))
    except MemtapeError as error:
        check("store", False, str(error))
    return {"ok": not problems, "problems": problems, "checks": checks, "notes": notes, "db": without_password(where)}


def _own_files(store: Path, db: str | None) -> list[Path]:
    """Returns what memtape itself makes for an embedded store: the files, and the folder in the home folder."""
    home = Path("~/.memtape").expanduser()
    beside = [store, *(Path(f"{store}{end}") for end in ("-wal", "-shm")), Path(documents(db)), Path(workspaces(db) or "")]
    return [*(path for path in beside if str(path) != "."), *([home] if store.parent == home else [])]


def _log_rows(memory: Any) -> int:
    return sum(memory.agent(agent.id).head().seq for agent in memory.agents())


def _contents(memory: Any, checks: list[dict[str, Any]]) -> list[str]:
    notes = []
    agents = memory.agents()
    if not agents:
        notes.append("there are no agents yet: run memtape agents create, or observe a tick (that creates the agent 'main')")
    for agent in agents:
        handle = memory.agent(agent.id)
        head = handle.head()
        last = time_text(head.known_at) if head.known_at else "never"
        checks.append({"check": f"agent {agent.id}", "ok": True, "found": f"head {head.seq} {head.hash[:12]}, last {last}"})
        if head.seq == 0:
            notes.append(f"agent {agent.id} has no observations yet: record ticks, fills or trades")
        elif not handle.ledger.trades(limit=1):
            notes.append(f"agent {agent.id} has no trades now: its {head.seq} log rows opened none, or were taken back")
        elif handle.ledger.trades(limit=1, status="closed") and not handle.memories.affect_step_count():
            notes.append(f"agent {agent.id} has trades without memories: run memtape rebuild")
        notes += _venue(handle)
    return notes


def _missing_rules(memory: Any) -> list[str]:
    """Returns what is missing of the pinned rules of each agent."""
    return [
        f"agent {agent.id}: {pin.problem}" for agent in memory.agents() for pin in memory.agent(agent.id).rules.pinned()
        if pin.problem
    ]  # fmt: skip


def _venue(agent: Any) -> list[str]:
    """Returns which venue an agent follows, and what its record lacks."""
    venue, coverage = followed_venue(agent), venue_coverage(agent)
    named = f"agent {agent.agent.id}"
    notes = [] if venue is None else [f"{named} follows {venue.source} at {venue.url}: {READ_OF_VENUE}"]
    if coverage is not None:
        notes += [f"{named}: not in its record: {note}" for note in missing_notes(coverage)]
        notes += [f"{named}: {note}" for note in [history_note(coverage)] if note]
    return notes


def _index(memory: Any) -> tuple[bool, str]:
    try:
        memory.resources.documents.check()
    except Damaged as error:
        return False, str(error)
    return True, memory.resources.documents.path


def _file_system(folder: Path) -> str:
    """Returns the kind of a folder's file system, or "" if the operating system does not say."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return ""
    best = ("", "")
    resolved = str(folder.resolve())
    for line in mounts.read_text().splitlines():
        _, point, kind, *_ = line.split()
        if (resolved == point or resolved.startswith(point.rstrip("/") + "/")) and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]
