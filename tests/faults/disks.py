"""Disks that fail: below SQLite, above the real file system.

`FailingDisk` refuses the n-th write, sync or truncation, once or until it is healed. `PowerDisk` remembers what was only
written and what was synced; when the power is cut, what was not synced survives in part: sector by sector, in any
combination, some of it torn.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512
_names = count(1)


@dataclass(frozen=True)
class Op:
    """Something asked of the disk."""

    kind: str  # write, sync, truncate or delete
    path: str
    at: int = 0
    data: bytes = b""

    @property
    def file(self) -> str:
        """wal, journal or main."""
        return next((part for part in ("wal", "journal") if self.path.endswith(f"-{part}")), "main")

    def __str__(self) -> str:
        return f"{self.kind} of the {self.file} file at {self.at}"


class Disk(apsw.VFS):
    """A disk that is told of every change before it happens, and may refuse it."""

    def __init__(self) -> None:
        self.name = f"disk{next(_names)}"
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path:
            self.opened(str(path))
        return _File(self, name, str(path or "temporary"), flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.asked(Op("delete", filename, int(syncdir)))
        super().xDelete(filename, syncdir)

    def opened(self, path: str) -> None:
        """A file is about to be opened."""

    def asked(self, op: Op) -> None:
        """A change is about to be made; an exception refuses it."""


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, path: str, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self.disk, self.path = disk, path

    def xWrite(self, data: bytes, offset: int) -> None:
        self.disk.asked(Op("write", self.path, offset, bytes(data)))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.disk.asked(Op("sync", self.path))
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:
        self.disk.asked(Op("truncate", self.path, newsize))
        super().xTruncate(newsize)


class FailingDisk(Disk):
    """Refuses the n-th change."""

    def __init__(self) -> None:
        super().__init__()
        self.arm(0, apsw.IOError)

    def arm(self, n: int, error: type[apsw.Error], lasting: bool = False) -> None:
        """Refuse the n-th change from here on (0: none), and with `lasting` every later one too."""
        self.n, self.error, self.lasting = n, error, lasting
        self.seen = 0
        self.kinds: list[str] = []  # of the changes seen
        self.refused: Op | None = None

    def heal(self) -> None:
        """Refuse no more."""
        self.n = 0

    def asked(self, op: Op) -> None:
        if op.kind == "delete":
            return
        self.seen += 1
        self.kinds.append(f"{op.kind} {op.file}")
        if self.n and (self.seen == self.n or (self.lasting and self.seen > self.n)):
            self.refused = self.refused or op
            raise self.error(f"injected: {op}")


# ---- loss of power -----------------------------------------------------------------------------------------------------


class PowerCut(apsw.IOError):
    """The lights are out."""


@dataclass
class Platter:
    """One name in the folder: what is surely on the disk, what was asked since, and what stood there before."""

    durable: bytes | None = None  # None: not even the name is surely there
    pending: list[Op] = field(default_factory=list)
    exists: bool = True
    before: bytes | None = None  # a file of this name whose deletion may not have reached the disk


class PowerDisk(Disk):
    """Loses its power at the n-th change. With `lying` it forgets what was synced as well, as bad hardware does."""

    def __init__(self, chance: random.Random, lying: bool = False) -> None:
        super().__init__()
        self.chance, self.lying = chance, lying
        self.platters: dict[str, Platter] = {}
        self.left = -1  # changes until the cut; -1: never
        self.dead = False

    def opened(self, path: str) -> None:
        if self.dead:
            return
        if path not in self.platters:
            file = Path(path)
            self.platters[path] = Platter(file.read_bytes() if file.exists() else None)
        self.platters[path].exists = True

    def asked(self, op: Op) -> None:
        if self.dead:
            raise PowerCut("there is no power")
        platter = self.platters.setdefault(op.path, Platter())
        if self.left == 0:
            if op.kind in ("write", "truncate"):
                platter.pending.append(op)  # on its way when it happened
            self.dead = True
            raise PowerCut("the power went")
        self.left -= 1
        if op.kind in ("write", "truncate"):
            platter.pending.append(op)
        elif op.kind == "delete":
            self.platters[op.path] = Platter(None, [], False, platter.durable)
            if op.at:
                self._sync_folder()
        elif not self.lying:
            if platter.durable is None and op.file != "main":
                self._sync_folder()  # SQLite syncs the folder with the first sync of a journal that it made
            platter.durable, platter.pending = _applied(platter.durable or b"", platter.pending), []

    def _sync_folder(self) -> None:
        for platter in self.platters.values():
            platter.before = None
            if platter.exists and platter.durable is None:
                platter.durable = b""

    def image(self, folder: Path) -> None:
        """What one finds on the disk afterwards, written into a folder."""
        odds = self.chance.choice([0.0, 0.2, 0.5, 0.8, 1.0])
        for path, platter in self.platters.items():
            content = self._survivors(platter, odds)
            if content is not None:
                (folder / Path(path).name).write_bytes(content)

    def _survivors(self, platter: Platter, odds: float) -> bytes | None:
        if platter.durable is None and (not platter.exists or self.chance.random() < 0.5):
            return platter.before if self.chance.random() < 0.5 else None  # the folder knows nothing of a new file
        landed = [piece for op in platter.pending for piece in _sectors(op) if self.chance.random() < odds]
        return _applied(platter.durable or b"", [self._perhaps_torn(piece) for piece in landed])

    def _perhaps_torn(self, op: Op) -> Op:
        if op.kind != "write" or self.chance.random() >= 0.03:
            return op
        cut = self.chance.randrange(len(op.data) + 1)
        return Op("write", op.path, op.at, op.data[:cut] + self.chance.randbytes(len(op.data) - cut))


def _sectors(op: Op) -> Iterator[Op]:
    """A write as the sectors that it touches: each may land without the others, which is also how order is lost."""
    if op.kind != "write":
        yield op
        return
    start = op.at
    while start < op.at + len(op.data):
        end = min((start // SECTOR + 1) * SECTOR, op.at + len(op.data))
        yield Op("write", op.path, start, op.data[start - op.at : end - op.at])
        start = end


def _applied(content: bytes, ops: list[Op]) -> bytes:
    made = bytearray(content)
    for op in ops:
        if op.kind == "truncate":
            del made[op.at :]
            made.extend(bytes(max(op.at - len(made), 0)))
        else:
            made.extend(bytes(max(op.at + len(op.data) - len(made), 0)))
            made[op.at : op.at + len(op.data)] = op.data
    return bytes(made)


@contextmanager
def checkpoint_every(pages: int) -> Iterator[None]:
    """Let SQLite copy its WAL back after so few pages, so that even a short story has checkpoints in it."""

    def often(connection: apsw.Connection) -> None:
        connection.wal_autocheckpoint(pages)

    apsw.connection_hooks.append(often)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(often)
