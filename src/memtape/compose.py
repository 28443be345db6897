"""From settings to a Memory: the only place that picks a back end."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from memtape.core.codec import digest
from memtape.engine import Memory
from memtape.engine.briefing import ESTIMATED, Tokens
from memtape.errors import Invalid
from memtape.plugs.clock import Clock
from memtape.plugs.embedder import embedder_of
from memtape.plugs.models import Model, model_of
from memtape.settings import SETTINGS
from memtape.store.database import Database


def setting(name: str, environment: Mapping[str, str] | None = None) -> str:
    """A setting as the environment has it, or its default."""
    environment = os.environ if environment is None else environment
    default = next(s.default for s in SETTINGS if s.name == name)
    return environment.get(name) or default


def address(url: str | None = None) -> str:
    """The store's address: what was given, else MEMTAPE_DB, else the file in the home folder.

    >>> address("sqlite:////tmp/a.db"), address("postgresql://host/db")
    ('/tmp/a.db', 'postgresql://host/db')
    """
    given = url or setting("MEMTAPE_DB")
    if given.startswith(("postgresql://", "postgres://")) or given == ":memory:":
        return given
    if given.startswith("sqlite:///"):
        given = given.removeprefix("sqlite:///")
    elif "://" in given:
        raise Invalid("db", f"'{given}' is not an address of a store", "Use a path, sqlite:///file.db or postgresql://...")
    if not given:
        raise Invalid("db", "the path is empty", "Name a file, like sqlite:///memory.db")
    return str(Path(given).expanduser().absolute())


def without_password(url: str) -> str:
    """An address that may be shown.

    >>> without_password("postgresql://ann:secret@host/db")
    'postgresql://ann:***@host/db'
    """
    return re.sub(r"//([^:/@]+):[^@]*@", r"//\1:***@", url)


def open_database(url: str | None = None, *, migrating: bool = False) -> Database:
    """The database behind an address."""
    wait = setting("MEMTAPE_WAIT_SECONDS")
    try:
        seconds = float(wait)
    except ValueError:
        raise Invalid("MEMTAPE_WAIT_SECONDS", f"'{wait}' is not a number", "Set a number of seconds") from None
    where = address(url)
    if where.startswith("postgres"):
        from memtape.store.postgres import PostgresDatabase

        return PostgresDatabase(where, wait_seconds=seconds, migrating=migrating)
    from memtape.store.sqlite import SqliteDatabase

    return SqliteDatabase(where, wait_seconds=seconds)


def open_memory(url: str | None = None, owner: str | None = None, clock: Clock | None = None) -> Memory:
    """The memory of an owner."""
    return Memory(
        open_database(url), owner or setting("MEMTAPE_OWNER"), clock, models=model,
        embedder=lambda: embedder_of(setting("MEMTAPE_EMBEDDER")), tokens=tokens(), documents=documents(url),
    )  # fmt: skip


def documents(url: str | None = None) -> str:
    """Where the index of documents is kept: beside an embedded store, else in the home folder, by the address of the store.

    >>> documents("/tmp/desk.db"), documents(":memory:")
    ('/tmp/desk.docs.db', ':memory:')
    """
    where = address(url)
    if where == ":memory:":
        return where
    if where.startswith("postgres"):
        return str(Path("~/.memtape").expanduser() / f"documents-{digest(where)[:16]}.db")
    return str(Path(where).with_suffix(".docs.db"))


def model(name: str) -> Model:
    """A model by its name, at the address and with the key that are set for its provider."""
    provider = name.partition("/")[0].upper()
    known = {s.name for s in SETTINGS}
    url, key = f"MEMTAPE_{provider}_URL", f"{provider}_API_KEY"
    return model_of(
        name, base_url=(setting(url) if url in known else "") or None, api_key=(setting(key) if key in known else "") or None
    )


def tokens() -> Tokens:
    """What counts a brief's tokens: the tokenizer that is set, else an estimate."""
    file = setting("MEMTAPE_TOKENIZER")
    if not file:
        return ESTIMATED
    path = Path(file).expanduser()
    if not path.is_file():
        raise Invalid("MEMTAPE_TOKENIZER", f"{path} is not a file", "Name a tokenizer.json, or leave it empty")

    @lru_cache(maxsize=1)
    def tokenizer() -> Any:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(path))

    return (lambda text: len(tokenizer().encode(text, add_special_tokens=False).ids)), f"tokenizer {path.parent.name}/{path.name}"
