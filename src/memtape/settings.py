"""Every setting, once: name, default, help. Only `compose` reads them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing a user may set in the environment."""

    name: str
    default: str
    help: str


SETTINGS: tuple[Setting, ...] = (
    Setting("MEMTAPE_DB", "~/.memtape/memory.db", "the store: a path, sqlite:///file or postgresql://... (also --db)"),
    Setting("MEMTAPE_OWNER", "local", "whose memory it is (also --owner)"),
    Setting("MEMTAPE_WAIT_SECONDS", "5", "how long a writer waits for another before it says 'locked'"),
)
