"""Counts the read transactions of a store and the statements in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from memtape.engine.resources import Resources


class Counter:
    """How many read transactions are opened, and how many statements run in them."""

    def __init__(self, resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
        self.transactions, self.statements = 0, list[str]()
        database = resources.database
        reading = database.reading

        @contextmanager
        def counted(owner: str) -> Iterator[Any]:
            self.transactions += 1
            with reading(owner) as session:
                run = type(session).all

                def all(own: Any, sql: str, params: Any) -> Any:
                    self.statements.append(sql)
                    return run(own, sql, params)

                with monkeypatch.context() as patched:
                    patched.setattr(type(session), "all", all)
                    yield session

        monkeypatch.setattr(database, "reading", counted)
