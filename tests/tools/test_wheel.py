"""The wheel with its base dependencies alone, in an environment that has nothing else: what a stranger installs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.request import urlopen

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)


def base_dependencies(names: list[str]) -> dict[str, Distribution]:
    """The distributions that the named ones need, and those that these need, without any extra that nobody asks for."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(name) for name in names]
    while waiting:
        wanted = waiting.pop()
        extras = ["", *sorted(wanted.extras)]
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        name = canonicalize_name(wanted.name)
        if name in found and not wanted.extras:
            continue
        found[name] = distribution(name)
        for text in found[name].requires or []:
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                needed.marker = None
                waiting.append(needed)
    return found


def put_into(site: Path, dist: Distribution) -> None:
    """Make an installed distribution visible in another environment."""
    for top in {file.parts[0] for file in dist.files or []} - {"..", "__pycache__"}:
        here = Path(str(dist.locate_file(top)))
        if here.exists() and not (site / top).exists():
            (site / top).symlink_to(here)


@pytest.fixture(scope="module")
def memtape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `memtape`, installed from the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    install = [str(BIN / "uv"), "pip", "install", "--offline", "--no-deps", "--quiet", "--python", str(python), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (metadata,) = site.glob("memtape-*.dist-info/METADATA")
    needs = re.findall(r"^Requires-Dist: (.+)$", metadata.read_text(encoding="utf-8"), re.MULTILINE)
    for dist in base_dependencies([text for text in needs if "extra ==" not in text]).values():
        put_into(site, dist)
    return folder / "venv" / "bin" / "memtape"


@pytest.fixture(scope="module")
def demo(memtape: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The demo served from the wheel: its store and its address."""
    store = tmp_path_factory.mktemp("store") / "demo.db"
    environment = {"HOME": str(store.parent), "PATH": "/usr/bin:/bin"}
    command = [str(memtape), "serve", "--demo", "--db", str(store), "--port", "0"]
    with subprocess.Popen(command, cwd=store.parent, env=environment, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = []
        for line in server.stderr:
            said.append(line)
            if found := re.match(r"memtape serves (\S+)", line):
                break
        else:
            pytest.fail("".join(said))
        yield store, found[1]
        server.terminate()
        rest = server.stderr.read()
    assert "Traceback" not in rest, rest


def test_the_environment_has_nothing_but_base_dependencies(memtape: Path) -> None:
    code = "import importlib.util as u; print([n for n in ('pytest', 'pandas', 'anthropic', 'pyarrow', 'psycopg') if u.find_spec(n)])"
    done = subprocess.run([str(memtape.with_name("python")), "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_demo_is_served_from_the_wheel(demo: tuple[Path, str]) -> None:
    with urlopen(f"{demo[1]}/agents/tech-breakout", timeout=60) as page:
        text = page.read().decode()
    assert page.status == 200 and "tech-breakout" in text and "AAPL" in text


def test_the_demo_of_the_wheel_answers_over_mcp(memtape: Path, demo: tuple[Path, str]) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "get_brief", "arguments": {}}},
    ]
    command = [str(memtape), "mcp", "--agent", "tech-breakout", "--db", str(demo[0])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as server:
        assert server.stdin is not None and server.stdout is not None
        answers = {}
        for line in lines:
            server.stdin.write(json.dumps(line) + "\n")
            server.stdin.flush()
            if "id" in line:
                answer = json.loads(server.stdout.readline())
                answers[answer["id"]] = answer["result"]
        server.stdin.close()
    assert "record_decision" in {tool["name"] for tool in answers[2]["tools"]}
    assert "tech-breakout" in answers[3]["content"][0]["text"]


def test_the_command_demo_runs_from_the_wheel(memtape: Path, demo: tuple[Path, str]) -> None:
    done = subprocess.run([str(memtape), "demo", "--db", str(demo[0])], capture_output=True, text=True, check=True)
    assert "tech-breakout" in done.stdout


# ---- the locks ---------------------------------------------------------------------------------------------------------


def pins(name: str) -> set[tuple[str, str]]:
    return set(PIN.findall((ROOT / name).read_text(encoding="utf-8")))


def test_what_running_needs_is_the_same_in_both_locks_and_much_less() -> None:
    run, everything = pins("requirements-run.lock"), pins("requirements.lock")
    assert run <= everything, run - everything
    assert len(run) < 0.7 * len(everything)
    assert not {"pytest", "playwright", "pandas", "claude-agent-sdk", "pyarrow"} & {name for name, _ in run}


def test_the_lock_of_running_has_every_base_dependency_that_is_installed() -> None:
    needs = [text for text in distribution("memtape").requires or [] if "extra ==" not in text]
    try:
        wanted = set(base_dependencies(needs))
    except PackageNotFoundError as missing:
        pytest.fail(f"{missing} is not installed")
    assert wanted <= {canonicalize_name(name) for name, _ in pins("requirements-run.lock")}


def test_no_lock_names_an_address() -> None:
    for name in ("requirements.lock", "requirements-run.lock"):
        assert "://" not in (ROOT / name).read_text(encoding="utf-8")
