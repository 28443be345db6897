"""Errors of SQLite as errors of memtape: for the store and for every cache that is an SQLite file."""

from __future__ import annotations

import apsw

from memtape.errors import DiskFull, Locked, MemtapeError, NoStore, ReadOnly, StoreFailure


def memtape_error(error: apsw.Error, url: str, wait_seconds: float) -> MemtapeError:
    """An error of SQLite as an error of memtape; `wait_seconds` is how long it waited for another writer."""
    problem = str(error) or type(error).__name__
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Locked(url=url, seconds=wait_seconds)
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError):
        return ReadOnly(url=url)
    if isinstance(error, apsw.FullError):
        return DiskFull(url=url)
    if isinstance(error, apsw.CantOpenError | apsw.NotADBError):
        return NoStore(url=url, problem=problem)
    return StoreFailure(url=url, problem=problem)
