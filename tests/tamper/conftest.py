"""The house's books, written once, and a forger with hands in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

import memtape
from memtape.compose import open_database
from memtape.engine import Memory
from memtape.engine.audit import Audit, verify
from memtape.store.rows import KEYS
from tests.tamper.forger import Forger, Forgery, PostgresHands, Refused, SqliteHands
from tests.tamper.house import furnish


@dataclass
class Trial:
    """A memory, the forger of its store, and what came of the forgeries tried."""

    memory: Memory
    forger: Forger
    committed: int = 0
    failures: list[str] = field(default_factory=list)

    def attempt(self, forgery: Forgery) -> None:
        """Let the forger do it, ask verify, put things right again."""
        try:
            self.forger.commit(forgery)
        except Refused:
            return
        self.committed += 1
        try:
            failure = overlooked(forgery, verify(self.memory))
        except Exception as error:  # noqa: BLE001  verify must answer whatever is in the tables; any exception is the finding
            failure = f"verify gave up with {type(error).__name__}: {error}"
        finally:
            self.forger.restore(forgery.table)
        if failure:
            self.failures.append(f"{forgery}: {failure}")

    def verdict(self) -> str:
        """What went wrong, shortly; '' if nothing did."""
        shown = "\n".join(self.failures[:20])
        return f"{len(self.failures)} of {self.committed} forgeries:\n{shown}" if self.failures else ""


def overlooked(forgery: Forgery, audit: Audit) -> str | None:
    """What verify failed to say about a forgery."""
    if audit.ok:
        return "not noticed"
    first = audit.problems[0]
    if not (first.table and first.key):
        return f"the first bad row has no name: {first}"
    if forgery.table in ("log", "streams"):  # what is wrong with one shows in the other, or in what follows from it
        return None
    here = [problem for problem in audit.problems if problem.table == forgery.table]
    if not here:
        return f"blamed on others: {first}"
    key = "/".join(str(forgery.row[c]) for c in KEYS[forgery.table])
    if forgery.in_place and forgery.table != "bars" and key not in {problem.key for problem in here}:
        return f"another row is named: {here[0]}"
    return None


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
