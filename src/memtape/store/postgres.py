"""PostgreSQL 15 or later, through psycopg 3 and a small pool.

Row-level security separates the owners, and is forced even on the owner of the tables. The application works as the role
`memtape_app`, which owns nothing. It names its owner at the start of each transaction; without a name it sees no rows.
Only `memtape migrate` changes the schema, with an account that may.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, LiteralString

from memtape.core.codec import GENESIS
from memtape.core.ids import OwnerId
from memtape.core.ledger.terms import RULES_VERSION
from memtape.errors import Conflict, Locked, MemtapeError, MissingExtra, NewerSchema, NoStore, OlderSchema, StoreFailure
from memtape.store.addresses import secrets_of, without_password
from memtape.store.database import Params, Row, expand, insertion
from memtape.store.schema import CACHES, LATEST, MIGRATIONS, TABLES

try:
    import psycopg
    from psycopg import errors as pg
    from psycopg.types.numeric import FloatDumper
    from psycopg_pool import ConnectionPool, PoolTimeout
except ImportError as missing:
    raise MissingExtra(what="PostgreSQL", extra="postgres") from missing

WAIT_SECONDS = 5
MAX_POOLED = 4  # connections that threads share; a transaction inside another one has a connection of its own
ROLE = "memtape_app"
_TYPES = {"money": "NUMERIC", "text": 'TEXT COLLATE "C"', "int": "BIGINT", "real": "DOUBLE PRECISION", "options": ""}
_MARK = re.compile(r"(?<!:):([a-z_][a-z_0-9]*)")
Connection = psycopg.Connection[tuple[Any, ...]]


@lru_cache(maxsize=512)
def _for_psycopg(sql: str) -> str:
    """A statement with its :name parameters in the form of psycopg."""
    return _MARK.sub(r"%(\1)s", sql.replace("%", "%%"))


class UnsignedZeroDumper(FloatDumper):
    """Writes -0.0 as 0.0."""

    # A loss of nothing is -0.0 as a float. SQLite and NUMERIC drop that sign, DOUBLE PRECISION keeps it: a row learned from a
    # stored trade would then differ from the same row of a rebuild.
    def dump(self, obj: float) -> Any:
        """The text of a number."""
        return super().dump(obj + 0.0)


class PostgresSession:
    """A transaction on a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def run(self, sql: str, params: Params) -> None:
        """Execute a statement."""
        sql, params = expand(sql, params)
        self._connection.execute(_for_psycopg(sql), params)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row], on_conflict: str = "") -> None:
        """Add rows, their values in the order of the columns."""
        if rows:
            with self._connection.cursor() as cursor:
                cursor.executemany(insertion(table, tuple(columns), "%s", on_conflict), rows)

    def all(self, sql: str, params: Params) -> list[Row]:
        """Execute a query and fetch everything."""
        sql, params = expand(sql, params)
        return self._connection.execute(_for_psycopg(sql), params).fetchall()

    def lock(self, owner: OwnerId, stream: str) -> None:
        """Lock the row of the head until the commit. If it is missing, it is created first."""
        at = {"owner": owner, "stream": stream, "hash": GENESIS, "rules": RULES_VERSION}
        held = "SELECT 1 FROM streams WHERE owner = :owner AND stream = :stream FOR UPDATE"
        if not self.all(held, at):
            self.run(
                "INSERT INTO streams (owner, stream, seq, hash, rules) VALUES (:owner, :stream, 0, :hash, :rules) "
                "ON CONFLICT DO NOTHING",
                at,
            )
            self.all(held, at)


class _ThreadState(threading.local):
    """What one thread has open."""

    transactions = 0


class PostgresDatabase:
    """One database on a server."""

    dialect = "postgresql"

    def __init__(self, url: str, *, wait_seconds: float = WAIT_SECONDS, migrating: bool = False) -> None:
        self.url = without_password(url)
        self.address = url
        self._wait = wait_seconds
        self._pool: ConnectionPool[Connection] | None = None
        self._thread = _ThreadState()
        if migrating:
            return
        with self._translated():
            with psycopg.connect(self.address) as connection:
                found = _schema(connection)
                self._check_role(connection)
            if found > LATEST:
                raise NewerSchema(url=self.url, found=found, known=LATEST)
            if found < LATEST:
                raise OlderSchema(url=self.url, found=found, known=LATEST)
            self._pool = ConnectionPool(
                url, min_size=1, max_size=MAX_POOLED, open=True, configure=self._as_application, timeout=wait_seconds * 2
            )

    def _check_role(self, connection: Connection) -> None:
        """Raises NoStore if this login may not work as the application."""
        row = connection.execute(
            "SELECT current_user, pg_has_role(current_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = %s", (ROLE,)
        ).fetchone()
        if row is not None and not row[1]:
            problem = f"the login {row[0]} is not a member of {ROLE}; let an administrator run: GRANT {ROLE} TO {row[0]}"
            raise NoStore(url=self.url, problem=problem)

    def _as_application(self, connection: Connection) -> None:
        connection.adapters.register_dumper(float, UnsignedZeroDumper)
        connection.execute(f"SET ROLE {ROLE}")
        connection.commit()

    @contextmanager
    def writing(self, owner: OwnerId) -> Iterator[PostgresSession]:
        """A transaction that commits as a whole or changes nothing."""
        with self._transaction(owner, f"SET LOCAL lock_timeout = '{int(self._wait * 1000)}ms'") as session:
            yield session

    @contextmanager
    def reading(self, owner: OwnerId) -> Iterator[PostgresSession]:
        """A transaction that sees one unchanging state."""
        with self._transaction(owner, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY") as session:
            yield session

    @contextmanager
    def _transaction(self, owner: OwnerId, how: str) -> Iterator[PostgresSession]:
        with self._translated(), self._connection() as connection, connection.transaction():
            connection.execute(how)
            connection.execute("SELECT set_config('memtape.owner', %s, true)", (owner,))
            yield PostgresSession(connection)

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """A connection that nobody else uses meanwhile: of the pool, or inside another transaction of this thread a new one."""
        assert self._pool is not None, "a migrating connection reads and writes nothing"
        # A thread that waited for the pool while it holds a connection of it could wait for itself.
        nested = self._thread.transactions > 0
        self._thread.transactions += 1
        try:
            if nested:
                with psycopg.connect(self.address) as connection:
                    self._as_application(connection)
                    yield connection
            else:
                with self._pool.connection() as connection:
                    yield connection
        finally:
            self._thread.transactions -= 1

    def schema(self) -> int:
        """The number of the last migration that was applied."""
        with self._translated(), psycopg.connect(self.address) as connection:
            return _schema(connection)

    def migrations(self) -> dict[int, str]:
        """The record of applied migrations: number and name."""
        with self._translated(), psycopg.connect(self.address) as connection:
            rows = connection.execute("SELECT number, name FROM migrations").fetchall()
            return {int(number): str(name) for number, name in rows}

    def restore_migration_records(self) -> None:
        """Nothing to do: an account that may write this record restores it with `memtape migrate`."""

    def migrate(self, *, upto: int | None = None) -> list[str]:
        """Each step with its record in one transaction, then the rights of the application role."""
        done = []
        with self._translated(), psycopg.connect(self.address) as connection:
            if upto is None:
                _restore_migration_records(connection)
            for step in MIGRATIONS:
                if step.number > (upto or LATEST):
                    break
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(77003)")
                    connection.execute("CREATE TABLE IF NOT EXISTS migrations (number BIGINT PRIMARY KEY, name TEXT NOT NULL)")
                    if connection.execute("SELECT 1 FROM migrations WHERE number = %s", (step.number,)).fetchone():
                        continue
                    for statement in step.statements:
                        connection.execute(statement.format(**_TYPES))
                    self._guard(connection)
                    connection.execute("INSERT INTO migrations VALUES (%s, %s)", (step.number, step.name))
                done.append(f"{step.number}: {step.name}")
        return done

    def owners_with_rules_before(self, version: int) -> list[OwnerId]:
        """The owners with projections that were made by older rules; only an account above row-level security sees them all."""
        with self._translated(), psycopg.connect(self.address) as connection:
            rows = connection.execute(
                "SELECT DISTINCT owner FROM streams WHERE coalesce(rules, 1) < %s AND seq > 0 ORDER BY owner", (version,)
            ).fetchall()
        return [OwnerId(owner) for (owner,) in rows]

    def copy_before(self, what: str) -> None:
        """A server has backups of its own."""

    def _guard(self, connection: Connection) -> None:
        """Row-level security by owner on every table, and an application role that can do no more than its work."""
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
            connection.execute(f"CREATE ROLE {ROLE} NOLOGIN NOBYPASSRLS NOSUPERUSER")
        connection.execute(f"GRANT {ROLE} TO CURRENT_USER")
        connection.execute(f"GRANT SELECT ON migrations TO {ROLE}")
        for table in (*TABLES, *CACHES):
            if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
                continue
            for statement in (
                f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
                f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
                f"DROP POLICY IF EXISTS own_rows ON {table}",
                f"CREATE POLICY own_rows ON {table} USING (owner = nullif(current_setting('memtape.owner', true), '')) "
                "WITH CHECK (owner = nullif(current_setting('memtape.owner', true), ''))",
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}",
            ):
                connection.execute(statement)

    def facts(self) -> dict[str, object]:
        """What `memtape doctor` reports about it."""
        with self._translated(), psycopg.connect(self.address) as connection:
            row = connection.execute("SHOW server_version").fetchone()
        return {"engine": f"PostgreSQL {row[0] if row else '?'} (psycopg {psycopg.__version__})", "path": self.url,
                "read_only": False}  # fmt: skip

    def backup(self, path: str) -> None:
        """Raises Conflict: PostgreSQL has its own tools for backups."""
        raise Conflict("db", "a PostgreSQL store is backed up by pg_dump", "Use pg_dump, or memtape export")

    def scrub(self, *, whole: bool) -> None:
        """Does nothing: PostgreSQL overwrites dead rows when it vacuums, and its WAL and copies are managed by its owner."""

    def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            self._pool.close()

    def _first_line(self, error: psycopg.Error) -> str:
        """The first line of the server's or libpq's message, without any part of the address that is secret."""
        text = (str(error).strip().splitlines() or [type(error).__name__])[0].replace(self.address, self.url)
        for secret in secrets_of(self.address):
            text = text.replace(secret, "***")
        return text.rstrip(".")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except MemtapeError:
            raise
        except (pg.LockNotAvailable, pg.DeadlockDetected, PoolTimeout) as error:
            raise Locked(url=self.url, seconds=self._wait) from error
        except psycopg.OperationalError as error:
            raise NoStore(url=self.url, problem=self._first_line(error)) from None
        except psycopg.Error as error:
            raise StoreFailure(url=self.url, problem=self._first_line(error)) from error


def _restore_migration_records(connection: Connection) -> None:
    """Restore the record of migrations where it was altered, if the tables and indexes are exactly those of this version."""
    true = [(step.number, step.name) for step in MIGRATIONS]
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(77003)")
        known = connection.execute("SELECT to_regclass('migrations')").fetchone() != (None,)
        if known and connection.execute("SELECT number, name FROM migrations ORDER BY number").fetchall() == true:
            return
        if not _has_latest_schema(connection):
            return
        connection.execute("CREATE TABLE IF NOT EXISTS migrations (number BIGINT PRIMARY KEY, name TEXT NOT NULL)")
        connection.execute(f"GRANT SELECT ON migrations TO {ROLE}")
        connection.execute("DELETE FROM migrations")
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO migrations VALUES (%s, %s)", true)


def _has_latest_schema(connection: Connection) -> bool:
    """Returns True if the tables and indexes are those that all migrations make. They are made as temporary ones to compare."""
    found = _schema_objects(connection, "current_schema()")
    with connection.transaction(force_rollback=True):
        connection.execute("SET LOCAL search_path = pg_temp")
        for step in MIGRATIONS:
            for statement in step.statements:
                connection.execute(statement.format(**_TYPES))
        return _schema_objects(connection, "(SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema())") == found


def _schema_objects(connection: Connection, schema: LiteralString) -> set[tuple[Any, ...]]:
    """The columns and indexes of a schema, without the record of migrations."""
    columns = connection.execute(
        "SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name FROM information_schema.columns "
        f"WHERE table_schema = {schema} AND table_name != 'migrations'"
    ).fetchall()
    indexes = connection.execute(
        "SELECT tablename, indexname, regexp_replace(indexdef, ' ON [^ ]+ ', ' ') FROM pg_indexes "
        f"WHERE schemaname = {schema} AND tablename != 'migrations'"
    ).fetchall()
    return {*columns, *indexes}


def _schema(connection: Connection) -> int:
    """The number of the last migration that was applied."""
    if connection.execute("SELECT to_regclass('migrations')").fetchone() == (None,):
        return 0
    found = connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()
    return int(found[0]) if found else 0
