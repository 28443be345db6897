"""The rooms: a module imports only from rooms further left, and core is pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "memtape"
# Each room with those it may import from, besides itself.
ROOMS = {
    "errors": (),
    "core": ("errors",),
    "settings": (),
    "store": ("errors", "core"),
    "columns": ("errors", "core"),
    "brokers": ("errors", "core"),
    "plugs": ("errors", "core"),
    "documents": ("errors", "core", "store", "plugs"),
    "engine": ("errors", "core", "store", "columns", "brokers", "plugs", "documents"),
    "sim": ("errors", "core", "store", "columns", "brokers", "plugs", "engine"),
    "workers": ("errors", "core", "store", "columns", "brokers", "plugs", "documents", "engine"),
    "runners": ("errors", "core", "store", "columns", "brokers", "plugs", "documents", "engine"),
    "compose": ("errors", "core", "store", "columns", "brokers", "plugs", "documents", "engine", "sim", "runners", "settings"),
    "surfaces": (
        "errors",
        "core",
        "store",
        "columns",
        "brokers",
        "plugs",
        "documents",
        "engine",
        "sim",
        "workers",
        "runners",
        "compose",
        "settings",
        "lab",
        "__init__",
    ),
    "lab": (
        "errors",
        "core",
        "store",
        "columns",
        "brokers",
        "plugs",
        "documents",
        "engine",
        "sim",
        "compose",
        "settings",
        "surfaces",
    ),
    "__init__": ("engine", "core", "compose"),
    "__main__": ("surfaces",),
}
# What a pure module must not even name: clocks, chance, I/O, SQL, logging, waiting.
IMPURE_MODULES = {"time", "random", "secrets", "os", "io", "socket", "subprocess", "logging", "sqlite3", "apsw", "psycopg",
                  "asyncio", "threading", "pathlib", "urllib", "http", "uuid", "shutil", "tempfile", "sys"}  # fmt: skip
IMPURE_CALLS = {"now", "utcnow", "today", "open", "print", "input", "urandom"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_rooms_further_left(path):
    own = room(path)
    for name in imports(path):
        if name.startswith("memtape"):
            target = [*name.split("."), "__init__"][1]
            if name == "memtape" and own == "surfaces":
                continue  # `from memtape import errors`
            assert target == own or target in ROOMS[own], f"{path.name} of {own} imports {name}"


@pytest.mark.parametrize("path", sorted((SOURCE / "core").glob("*.py")), ids=lambda path: path.name)
def test_core_knows_no_clock_no_chance_and_no_io(path):
    named = {name.split(".")[0] for name in imports(path)}
    assert named & IMPURE_MODULES == set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert called not in IMPURE_CALLS, f"{path.name} calls {called}"
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await), f"{path.name} waits"


def test_every_room_is_known():
    assert {room(path) for path in modules()} <= ROOMS.keys()
