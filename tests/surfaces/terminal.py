"""Commands under a real pseudo-terminal of a chosen width, many of them in one process, since starting one takes long."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence

from tests.surfaces.parity import Program

MARK = "=====memtape====="
RUN_ALL = f"""
import json, sys
from memtape.surfaces.cli.main import app

for words in json.loads(sys.argv[1]):
    sys.argv = ["memtape", *words]
    try:
        app(words)
        code = 0
    except SystemExit as stopped:
        code = stopped.code
    print("{MARK}", code, flush=True)
"""


def on_terminal(width: int, commands: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """The exit code of each command, and what it shows on a terminal of that width."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {name: value for name, value in Program().environment().items() if name not in ("COLUMNS", "LINES")}
    argv = [sys.executable, "-c", RUN_ALL, json.dumps(commands)]
    with subprocess.Popen(argv, stdin=child, stdout=child, stderr=child, env=environment | {"TERM": "xterm"}) as process:
        os.close(child)
        seen = b""
        try:
            while part := os.read(parent, 65536):
                seen += part
        except OSError:
            pass  # so Linux says that the other end is gone
        process.wait(timeout=120)
    os.close(parent)
    *shown, rest = seen.decode().replace("\r\n", "\n").split(MARK)
    # Each part begins with the exit code of the command before it.
    codes = [int(part.split("\n")[0]) for part in (*shown[1:], rest)]
    texts = [shown[0], *(part.partition("\n")[2] for part in shown[1:])]
    return list(zip(codes, texts, strict=True))
