"""A process that is given a text, prints lines, and has a time limit. Its whole process group ends with it.

It also ends with the process that started it, even if that is killed: the run is lost then, and must not go on to spend money
and to record decisions. A small guard process sees to that. It waits for a byte that says that all is well; if instead its pipe
closes, nobody is left to send it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from time import sleep
from typing import IO

GRACE_SECONDS, LOOK_SECONDS = 2.0, 0.05  # between asking a group to end and killing it; between two looks at it
MAX_ERROR_BYTES = 20_000  # of what the process prints on stderr

GUARD = """
import os, signal, sys, time
if not sys.stdin.buffer.read(1):
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(int(sys.argv[1]), number)
        except ProcessLookupError:
            break
        time.sleep(2)
"""


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How a process ended."""

    code: int
    timed_out: bool
    errors: str  # the beginning of what it printed on stderr


def run_process(
    command: Sequence[str], text: str, on_line: Callable[[bytes], bool], *, folder: Path, environment: Mapping[str, str],
    timeout_seconds: float,
) -> ProcessEnd:  # fmt: skip
    """Run a command with a text on its stdin. `on_line` is given each line that it prints, and returns False to stop it."""
    # A session of its own is a process group of its own: whatever it starts can be ended with it.
    process = subprocess.Popen(
        command, cwd=folder, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    streams = _Streams(process, on_line)
    try:
        with _guarded(process.pid):
            streams.start(text.encode("utf-8", "replace"))
            timed_out = not streams.done.wait(timeout_seconds)
    finally:
        _end_group(process.pid)
    errors = streams.close()
    return ProcessEnd(process.wait(), timed_out, errors)


@dataclass(slots=True)
class _Streams:
    """What is written to a process and read from it, each in a thread of its own, so that no full pipe blocks another."""

    process: subprocess.Popen[bytes]
    on_line: Callable[[bytes], bool]
    done: Event = field(default_factory=Event)  # the process ended, or should end
    errors: bytearray = field(default_factory=bytearray)
    readers: list[Thread] = field(default_factory=list)

    def start(self, text: bytes) -> None:
        stdin, stdout, stderr = self.process.stdin, self.process.stdout, self.process.stderr
        assert stdin and stdout and stderr
        self.readers = [
            Thread(target=self._write, args=(stdin, text), daemon=True),
            Thread(target=self._read_lines, args=(stdout,), daemon=True),
            Thread(target=self._read_errors, args=(stderr,), daemon=True),
        ]
        for thread in (*self.readers, Thread(target=self._wait, daemon=True)):
            thread.start()

    def close(self) -> str:
        """Wait until everything is read. Returns what was printed on stderr."""
        for thread in self.readers:
            # A process that left the group may still hold a pipe open: it is not waited for.
            thread.join(GRACE_SECONDS)
        return bytes(self.errors).decode("utf-8", "replace")

    def _write(self, pipe: IO[bytes], text: bytes) -> None:
        # A process that ends early has not read all of it.
        with suppress(BrokenPipeError), pipe:
            pipe.write(text)

    def _read_lines(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                if not self.on_line(line):
                    self.done.set()

    def _read_errors(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                self.errors.extend(line[: MAX_ERROR_BYTES - len(self.errors)])

    def _wait(self) -> None:
        self.process.wait()
        self.done.set()


@contextmanager
def _guarded(group: int) -> Iterator[None]:
    """End a process group if this process dies during the block."""
    # Isolated and without site packages, it starts in 15 ms. Its own session: it must outlive what it guards.
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", GUARD, str(group)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield
    finally:
        guard.communicate(b".")


def _end_group(group: int) -> None:
    """End every process of a group: first by asking, then by force."""
    if not _signal_group(group, signal.SIGTERM):
        return
    for _ in range(round(GRACE_SECONDS / LOOK_SECONDS)):
        if not _signal_group(group, 0):
            return
        sleep(LOOK_SECONDS)
    _signal_group(group, signal.SIGKILL)


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a group. Returns False if it has no process any more."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
