"""The schema grows by numbered steps: each whole or not at all, once, with a copy of the old file kept beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import memtape
from memtape.compose import open_database
from memtape.core.codec import canonical_plain, digest
from memtape.engine.proof.audit import verify_store
from memtape.errors import MemtapeError, NewerSchema, OlderSchema, StoreFailure
from memtape.store import schema
from memtape.store.database import Database
from memtape.store.schema import CACHES, LATEST, MIGRATIONS, TABLES, Migration
from memtape.store.sqlite import SqliteDatabase
from tests.faults.processes import together
from tests.tamper.house import furnish, path_of

NEXT = Migration(LATEST + 1, "moods", ("CREATE TABLE moods (owner TEXT)", "CREATE INDEX moods_owner ON moods (owner)"))
BROKEN = Migration(LATEST + 1, "moods", (NEXT.statements[0], "CREATE INDEX nothing ON nowhere (owner)", NEXT.statements[1]))


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store before its first migration."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'new.db'}"
    make: Callable[[], str] = request.getfixturevalue("new_postgres")
    return make()


@pytest.fixture
def with_steps(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets memtape know other migrations."""
    from memtape.store import sqlite

    modules = [schema, sqlite]
    if find_spec("psycopg"):
        from memtape.store import postgres

        modules.append(postgres)

    def know(*steps: Migration) -> None:
        for module in modules:
            monkeypatch.setattr(module, "MIGRATIONS", steps)
            monkeypatch.setattr(module, "LATEST", steps[-1].number)

    return know


def migrate(url: str) -> list[str]:
    """As `memtape migrate` does."""
    database = open_database(url, migrating=True)
    try:
        return database.migrate()
    finally:
        database.close()


def tables_of(url: str) -> set[str]:
    """The tables that are there."""
    if url.startswith("postgresql"):
        import psycopg

        with psycopg.connect(url) as connection:
            rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    else:
        import apsw

        connection = apsw.Connection(str(path_of(url)))
        rows = list(connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'"))
        connection.close()
    return {name for (name,) in rows}


def set_schema(url: str, number: int) -> None:
    """Pretend that a store had a migration of the future."""
    statement = f"INSERT INTO migrations VALUES ({number}, 'from the future')"
    if url.startswith("postgresql"):
        import psycopg

        with psycopg.connect(url) as connection:
            connection.execute(statement)  # type: ignore[call-overload]
    else:
        import apsw

        connection = apsw.Connection(str(path_of(url)))
        connection.execute(statement)
        connection.close()


def test_an_empty_store_gets_every_table(empty_url: str) -> None:
    migrate(empty_url)
    assert tables_of(empty_url) == {*TABLES, *CACHES, "migrations"}
    with memtape.open(empty_url) as memory:
        assert memory.database.schema() == LATEST
        assert furnish(memory).agents()


def test_migrating_again_does_nothing(empty_url: str) -> None:
    migrate(empty_url)
    with furnish(memtape.open(empty_url)) as memory:
        before = verify_store(memory).digests
    assert migrate(empty_url) == []
    with memtape.open(empty_url) as memory:
        assert verify_store(memory).digests == before


def test_steps_are_told_by_number_and_name(empty_url: str) -> None:
    if empty_url.startswith("sqlite"):
        open_database(empty_url).close()  # a writer migrates SQLite when it opens it
        assert migrate(empty_url) == []
    else:
        assert migrate(empty_url) == [f"{step.number}: {step.name}" for step in MIGRATIONS]


def test_a_first_step_that_breaks_leaves_no_table(empty_url: str, with_steps: Callable[..., None]) -> None:
    half = Migration(1, MIGRATIONS[0].name, (*MIGRATIONS[0].statements[:4], "CREATE INDEX nothing ON nowhere (owner)"))
    with_steps(half)
    with pytest.raises(StoreFailure):
        migrate(empty_url)
    assert tables_of(empty_url) <= {"migrations"}
    with_steps(*MIGRATIONS)
    migrate(empty_url)
    assert tables_of(empty_url) == {*TABLES, *CACHES, "migrations"}
    with furnish(memtape.open(empty_url)) as memory:
        assert verify_store(memory).ok


def test_a_later_step_that_breaks_leaves_the_store_as_it_was_and_can_be_taken_again(
    empty_url: str, with_steps: Callable[..., None]
) -> None:
    migrate(empty_url)
    with furnish(memtape.open(empty_url)) as memory:
        before = verify_store(memory).digests
    with_steps(*MIGRATIONS, BROKEN)
    with pytest.raises(StoreFailure):
        migrate(empty_url)
    assert tables_of(empty_url) == {*TABLES, *CACHES, "migrations"}
    with_steps(*MIGRATIONS)
    with memtape.open(empty_url) as memory:
        assert memory.database.schema() == LATEST
        assert verify_store(memory).digests == before
    with_steps(*MIGRATIONS, NEXT)
    migrate(empty_url)
    assert tables_of(empty_url) == {*TABLES, *CACHES, "migrations", "moods"}
    with memtape.open(empty_url) as memory:
        assert verify_store(memory).digests == before


@pytest.mark.parametrize("count", [2, 4])
def test_processes_that_migrate_at_once_do_it_once(empty_url: str, count: int) -> None:
    assert together([lambda: assert_migrates(empty_url)] * count) == [0] * count
    assert tables_of(empty_url) == {*TABLES, *CACHES, "migrations"}
    with furnish(memtape.open(empty_url)) as memory:
        assert verify_store(memory).ok


def test_processes_that_take_a_later_step_at_once_take_it_once(empty_url: str, with_steps: Callable[..., None]) -> None:
    migrate(empty_url)
    with furnish(memtape.open(empty_url)) as memory:
        before = verify_store(memory).digests
    with_steps(*MIGRATIONS, NEXT)
    assert together([lambda: assert_migrates(empty_url)] * 3) == [0] * 3
    with memtape.open(empty_url) as memory:
        assert verify_store(memory).digests == before


def assert_migrates(url: str) -> None:
    migrate(url)
    with memtape.open(url) as memory:
        assert memory.database.schema() == schema.LATEST


def test_older_code_refuses_a_newer_store(empty_url: str) -> None:
    migrate(empty_url)
    set_schema(empty_url, LATEST + 7)
    with pytest.raises(NewerSchema, match=rf"schema {LATEST + 7}, .*knows only {LATEST}\. Upgrade"):
        memtape.open(empty_url)


def test_postgres_is_migrated_only_when_asked(new_postgres: Callable[[], str]) -> None:
    url = new_postgres()
    with pytest.raises(OlderSchema, match=r"Run: memtape migrate --db 'postgresql://"):
        memtape.open(url)
    assert tables_of(url) == set()


def test_a_message_about_an_old_store_does_not_show_the_password(new_postgres: Callable[[], str]) -> None:
    url = new_postgres().replace("postgres@", "postgres:hunter2@")
    with pytest.raises(OlderSchema) as told:
        memtape.open(url)
    assert "hunter2" not in str(told.value)


# ---- the copy kept beside a SQLite file ----------------------------------------------------------------------------


@pytest.fixture
def old_store(tmp_path: Path, with_steps: Callable[..., None]) -> Iterator[tuple[Path, dict[str, str]]]:
    """A file with books in it, which the memtape of now thinks old."""
    path = tmp_path / "old.db"
    with furnish(memtape.open(str(path))) as memory:
        digests = verify_store(memory).digests
    with_steps(*MIGRATIONS, NEXT)
    yield path, digests


def test_an_old_file_is_copied_before_it_is_changed(
    old_store: tuple[Path, dict[str, str]], with_steps: Callable[..., None]
) -> None:
    path, digests = old_store
    memtape.open(str(path)).close()
    copies = [file for file in path.parent.iterdir() if "before" in file.name]
    assert [copy.name for copy in copies] == [f"old.db.before-{NEXT.number}"]
    assert "moods" in tables_of(f"sqlite:///{path}")
    assert "moods" not in tables_of(f"sqlite:///{copies[0]}")
    with_steps(*MIGRATIONS)
    with memtape.open(str(copies[0])) as memory:
        assert verify_store(memory).digests == digests


def test_a_new_file_needs_no_copy(tmp_path: Path) -> None:
    memtape.open(str(tmp_path / "new.db")).close()
    assert [file.name for file in tmp_path.iterdir()] == ["new.db"]


def test_a_file_that_cannot_be_copied_is_not_changed(
    old_store: tuple[Path, dict[str, str]], with_steps: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, digests = old_store

    def no_room(self: SqliteDatabase, path: str) -> None:
        raise StoreFailure(url=self.url, problem="no room")

    monkeypatch.setattr(SqliteDatabase, "backup", no_room)
    with pytest.raises(MemtapeError):
        memtape.open(str(path))
    assert "moods" not in tables_of(f"sqlite:///{path}")
    with_steps(*MIGRATIONS)
    with memtape.open(str(path)) as memory:
        assert verify_store(memory).digests == digests


def test_a_step_can_be_stopped_short_of(new_postgres: Callable[[], str], with_steps: Callable[..., None]) -> None:
    url = new_postgres()
    with_steps(*MIGRATIONS, NEXT)
    database: Database = open_database(url, migrating=True)
    assert database.migrate(upto=LATEST) == [f"{step.number}: {step.name}" for step in MIGRATIONS]
    assert database.schema() == LATEST


def test_every_table_is_named_in_the_schema(empty_url: str) -> None:
    there: set[str] = set()
    for statement in (statement for step in MIGRATIONS for statement in step.statements):
        deed, what, name = statement.split()[:3]
        if what == "TABLE":
            there = there | {name} if deed == "CREATE" else there - {name} if deed == "DROP" else there
    assert there == {*TABLES, *CACHES}


def test_a_step_that_was_released_is_never_edited() -> None:
    made = {step.number: digest(canonical_plain([step.name, *step.statements]))[:16] for step in MIGRATIONS}
    assert made == {1: "37312a2adf9b8205", 2: "4638a7747029dbc0", 3: "ef681bb12de7ff1e", 4: "5140b6ee65767885", 5: "02f5383eb76ccfcd", 6: "bb4cb7885f4b3a88", 7: "e34c71503fdb7613", 8: "0476f9be8748f357"}, (
        "columns of a released step changed: leave them out of it, and add a step"
    )
