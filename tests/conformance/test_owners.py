"""Owners on PostgreSQL do not see, change or even count each other's rows, whatever SQL the application role is made to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import memtape
from memtape.compose import open_database
from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from memtape.errors import MissingExtra, StoreFailure, Unknown
from memtape.store.rows import COLUMNS
from memtape.store.schema import CACHES, TABLES
from memtape.store.tables import owners
from tests.tamper.house import furnish

try:
    import psycopg

    from memtape.store.postgres import ROLE
except (ImportError, MissingExtra):
    pass  # then the fixture below skips, or fails where nothing may be skipped

pytestmark = pytest.mark.usefixtures("postgres_server")


@pytest.fixture(scope="module")
def alice(new_postgres: Callable[[], str]) -> Iterator[str]:
    """The address of a database in which Alice keeps the books of her house, with rows in every table."""
    address = new_postgres()
    open_database(address, migrating=True).migrate()
    with furnish(memtape.open(address, owner="alice")):
        pass
    yield address


@pytest.fixture
def alices_own(new_postgres: Callable[[], str]) -> str:
    """The same in a database of its own, for tests in which others move in."""
    address = new_postgres()
    open_database(address, migrating=True).migrate()
    with furnish(memtape.open(address, owner="alice")):
        pass
    return address


@contextmanager
def application(address: str, owner: str | None) -> Iterator[Any]:
    """Straight SQL as the application role, in one transaction that is taken back."""
    with psycopg.connect(address) as connection:
        connection.execute(f"SET ROLE {ROLE}")
        if owner is not None:
            connection.execute("SELECT set_config('memtape.owner', %s, true)", (owner,))
        yield connection
        connection.rollback()


def superuser(address: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(address) as connection:
        found: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
        return found


def a_row(address: str, table: str) -> dict[str, Any]:
    """One of Alice's rows."""
    (row,) = superuser(address, f"SELECT {', '.join(COLUMNS[table])} FROM {table} WHERE owner = 'alice' LIMIT 1")
    return dict(zip(COLUMNS[table], row, strict=True))


def insert(connection: Any, table: str, row: dict[str, Any]) -> None:
    marks = ", ".join("%s" for _ in row)
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))


every_table = pytest.mark.parametrize("table", TABLES)
others = pytest.mark.parametrize("who", [None, "bob", ""], ids=["nobody", "bob", "an empty name"])


@every_table
def test_alice_sees_her_rows(alice: str, table: str) -> None:
    with application(alice, "alice") as connection:
        seen = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert seen == superuser(alice, f"SELECT count(*) FROM {table} WHERE owner = 'alice'")[0]
    assert seen[0] > 0


@others
@every_table
def test_others_see_nothing_of_alice(alice: str, table: str, who: str | None) -> None:
    with application(alice, who) as connection:
        assert connection.execute(f"SELECT * FROM {table}").fetchall() == []
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


@others
@every_table
def test_others_write_nothing_for_alice(alice: str, table: str, who: str | None) -> None:
    with application(alice, who) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        insert(connection, table, a_row(alice, table))


@others
@every_table
def test_others_change_and_delete_nothing_of_alice(alice: str, table: str, who: str | None) -> None:
    with application(alice, who) as connection:
        assert connection.execute(f"UPDATE {table} SET stream = 'stolen'").rowcount == 0
        assert connection.execute(f"UPDATE {table} SET owner = 'bob'").rowcount == 0
        assert connection.execute(f"DELETE FROM {table}").rowcount == 0


@every_table
def test_alice_cannot_give_a_row_away(alice: str, table: str) -> None:
    with application(alice, "alice") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(f"UPDATE {table} SET owner = 'bob'")


@every_table
def test_without_a_name_nothing_can_be_written_for_anybody(alice: str, table: str) -> None:
    for owner in ("bob", ""):
        with application(alice, None) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            insert(connection, table, a_row(alice, table) | {"owner": owner})


@every_table
def test_a_name_that_has_passed_leaves_no_room_for_the_nameless(alice: str, table: str) -> None:
    """After `set_config(..., true)` the setting is not unset but empty: that must not be a name either."""
    with psycopg.connect(alice) as connection:
        connection.execute(f"SET ROLE {ROLE}")
        connection.execute("SELECT set_config('memtape.owner', 'alice', true)")
        connection.commit()
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            insert(connection, table, a_row(alice, table) | {"owner": ""})
        connection.rollback()


@every_table
def test_not_even_a_conflict_tells_of_anothers_row(alice: str, table: str) -> None:
    """Bob may hold the same stream and keys as Alice: every key starts with the owner."""
    with application(alice, "bob") as connection:
        insert(connection, table, a_row(alice, table) | {"owner": "bob"})
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)


@every_table
def test_the_application_role_can_do_no_more_than_its_work(alice: str, table: str) -> None:
    for sql in (
        f"TRUNCATE {table}", f"DROP TABLE {table}", f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY",
        f"DROP POLICY own_rows ON {table}", f"CREATE POLICY mine ON {table} USING (true)",
    ):  # fmt: skip
        with application(alice, "alice") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(sql)


def test_the_schema_is_not_the_applications_to_change(alice: str) -> None:
    for sql in ("DELETE FROM migrations", "INSERT INTO migrations VALUES (99, 'x')", "CREATE TABLE mine (x int)"):
        with application(alice, "alice") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(sql)


def test_every_table_is_guarded_and_belongs_to_somebody_else(alice: str) -> None:
    rows = superuser(
        alice,
        "SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity, pg_get_userbyid(c.relowner) FROM pg_class c "
        "WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname <> 'migrations'",
    )
    assert {name for name, *_ in rows} == {*TABLES, *CACHES}
    for name, enabled, forced, owner in rows:
        assert enabled and forced, f"{name} is not guarded"
        assert owner != ROLE, f"{name} belongs to the application"


def test_the_role_has_no_way_around(alice: str) -> None:
    ((bypass, super_, login),) = superuser(
        alice, f"SELECT rolbypassrls, rolsuper, rolcanlogin FROM pg_roles WHERE rolname = '{ROLE}'"
    )
    assert not (bypass or super_ or login)


# ---- over memtape's own pooled connections -----------------------------------------------------------------------------


def test_one_owners_name_does_not_stay_on_a_pooled_connection(alice: str) -> None:
    database: Any = open_database(alice)
    try:
        for _ in range(10):
            with database.reading("alice") as session:
                assert owners(session) == ["alice"]
            with database.reading("bob") as session:
                assert owners(session) == []
            with database._pool.connection() as connection:  # the next user of the same connection, who names nobody
                assert connection.execute("SELECT count(*) FROM log").fetchone() == (0,)
                assert connection.execute("SELECT current_user").fetchone() == (ROLE,)
    finally:
        database.close()


def test_a_name_does_not_outlive_a_transaction_that_failed(alice: str) -> None:
    database: Any = open_database(alice)
    try:
        for _ in range(6):
            with pytest.raises(StoreFailure), database.writing("alice") as session:
                session.run("INSERT INTO nowhere VALUES (1)", {})
            with database._pool.connection() as connection:
                assert connection.execute("SELECT count(*) FROM log").fetchone() == (0,)
    finally:
        database.close()


def test_two_owners_of_one_database_live_as_if_alone(alices_own: str, opened: Callable[..., Memory]) -> None:
    hers, his = opened(alices_own, "alice"), opened(alices_own, "bob")
    before = verify_store(hers)
    assert before.ok
    assert his.agents() == []
    with pytest.raises(Unknown):
        his.agent("aapl")
    furnish(his)
    assert verify_store(his).ok
    assert verify_store(hers).digests == before.digests
    assert {head["owner"] for head in verify_store(his).heads} == {"bob"}


def test_a_plain_login_that_is_a_member_of_the_role_is_enough(alices_own: str, opened: Callable[..., Memory]) -> None:
    with psycopg.connect(alices_own, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE desk_login LOGIN NOSUPERUSER IN ROLE {ROLE}")
    address = alices_own.replace("postgres@", "desk_login@")
    memory = furnish(opened(address, "carol"))
    assert verify_store(memory).ok
    with psycopg.connect(address) as connection:  # and without memtape, it is nobody
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (0,)


def test_straight_sql_shows_and_changes_no_fact_of_another_owner(alices_own: str, opened: Callable[..., Memory]) -> None:
    hers = opened(alices_own, "alice")
    hers.facts.remember("I never trade alts.", topic="symbols")
    about = "SELECT count(*) FROM {} WHERE stream = '@owner' AND kind = 'fact'"
    for table in ("items", "log"):
        with application(alices_own, "alice") as connection:
            assert connection.execute(about.format(table)).fetchone() == (1,)
        for who in (None, "bob", ""):
            with application(alices_own, who) as connection:
                assert connection.execute(about.format(table)).fetchone() == (0,)
                assert connection.execute(f"DELETE FROM {table} WHERE kind = 'fact'").rowcount == 0
    assert [fact.text for fact in hers.facts.all()] == ["I never trade alts."]
