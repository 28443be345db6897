"""The house's books, written once, and a forger with hands in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import memtape
from memtape.compose import open_database
from memtape.engine import Memory
from tests.tamper.forger import Forger, PostgresHands, SqliteHands
from tests.tamper.house import furnish
from tests.tamper.trial import Trial


@pytest.fixture(scope="module")
def sqlite_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Memory, Forger]]:
    """The house on SQLite."""
    path = str(tmp_path_factory.mktemp("house") / "memory.db")
    with furnish(memtape.open(path)) as memory:
        hands = SqliteHands(path)
        yield memory, Forger(hands)
        hands.close()


@pytest.fixture(scope="module")
def postgres_house(new_postgres: Callable[[], str]) -> Iterator[tuple[Memory, Forger]]:
    """The house on PostgreSQL, and a superuser."""
    import psycopg

    address = new_postgres()
    open_database(address, migrating=True).migrate()
    with psycopg.connect(address, autocommit=True) as superuser, furnish(memtape.open(address)) as memory:
        yield memory, Forger(PostgresHands(superuser))


@pytest.fixture(params=["sqlite", "postgres"])
def house(request: pytest.FixtureRequest) -> Iterator[Trial]:
    """The house on each store, as it was."""
    memory, forger = request.getfixturevalue(f"{request.param}_house")
    yield Trial(memory, forger)
    forger.restore()


@pytest.fixture
def on_sqlite(sqlite_house: tuple[Memory, Forger]) -> Iterator[Trial]:
    """The house on SQLite alone."""
    yield Trial(*sqlite_house)
    sqlite_house[1].restore()
