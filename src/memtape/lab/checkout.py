"""Parts that come with the source code only: the benchmarks (`bench/`) and the tools (`tools/`), beside `src/`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from memtape.errors import Invalid

CHECKOUT = Path(__file__).parents[3]


def import_from_checkout(module: str, what: str) -> ModuleType:
    """Import a module of the source checkout. Raises Invalid where memtape was installed without one.

    >>> import_from_checkout("nowhere.none", "nothings")
    Traceback (most recent call last):
    memtape.errors.Invalid: command: nothings are part of the source checkout. Run this command from a checkout of memtape
    """
    file = CHECKOUT.joinpath(*module.split(".")).with_suffix(".py")
    if not file.is_file():
        raise Invalid("command", f"{what} are part of the source checkout", "Run this command from a checkout of memtape")
    if str(CHECKOUT) not in sys.path:
        # First, so that an installed package with the same name does not hide it.
        sys.path.insert(0, str(CHECKOUT))
    return import_module(module)
