"""The tests of faults work on a disk: a store in memory commits too soon for a kill or a full disk to meet it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ON_DISK = "/var/tmp"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder of the test's own, on a disk."""
    with TemporaryDirectory(prefix="memtape-", dir=ON_DISK) as folder:
        yield Path(folder)
