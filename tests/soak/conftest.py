"""The long versions of the trust tests: only with MEMTAPE_SOAK=1, as `make soak` sets it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.effort import SOAK

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all tests of this folder, so that `-m soak` chooses them."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("soak")


@pytest.fixture(autouse=True)
def _only_when_asked() -> None:
    if not SOAK:
        pytest.skip("a long test: set MEMTAPE_SOAK=1, or run make soak")


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """A folder in memory where there is one: for disks that fail by themselves."""
    shm = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(prefix="memtape-soak-", dir=shm if os.access(shm, os.W_OK) else None))
    yield place
    shutil.rmtree(place)
