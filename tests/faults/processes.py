"""Work done in processes of its own, forked from this one while it holds no connection."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn


def fork(work: Callable[[], None]) -> int:
    """Start a process that does the work and ends; answers its id."""
    pid = os.fork()
    if not pid:
        _work_and_end(work)
    return pid


def _work_and_end(work: Callable[[], None]) -> NoReturn:
    status = 1
    try:
        work()
        status = 0
    except BaseException:  # noqa: BLE001  the child must never return into the test runner
        with suppress(OSError):
            os.write(2, traceback.format_exc().encode())
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(status)


def together(works: Sequence[Callable[[], None]]) -> list[int]:
    """Do each in a process of its own, all at once; answers how each ended, 0 being well."""
    ready, go = os.pipe()

    def starting(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            os.close(go)
            os.read(ready, 1)  # until the parent closes its end
            work()

        return run

    pids = [fork(starting(work)) for work in works]
    os.close(ready)
    os.close(go)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
