"""The house rules that a machine can check: no import cycle, one name for one thing, SQL in one room, one choice of a view."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "memtape"
# Names that are defined in two modules on purpose, each with its reason.
SHARED_NAMES: dict[str, str] = {}


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of memtape by its dotted name, parsed."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ["memtape", *path.relative_to(SOURCE).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imported(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """The modules of memtape that a module imports anywhere in it, typing imports included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            inner = [name for name in submodules if name in known]
            yield from inner
            if len(inner) < len(submodules):
                yield node.module


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """A path that leads back to where it began, if there is one."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph.get(name, ())):
            if found := visit(other, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := visit(name, []))), [])


def test_no_modules_of_the_engine_import_each_other_in_a_circle():
    trees = modules()
    engine = {name: tree for name, tree in trees.items() if name.startswith("memtape.engine.")}
    graph = {name: {other for other in imported(tree, set(engine)) if other != name} for name, tree in engine.items()}
    assert cycle(graph) == []


def test_the_finder_of_circles_finds_one():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}}) == []


def test_a_class_or_public_function_is_defined_in_one_module():
    homes: dict[str, list[str]] = defaultdict(list)
    for name, tree in modules().items():
        for node in tree.body:
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")
            if isinstance(node, ast.ClassDef) or is_function:
                homes[node.name].append(name)
    twice = {name: several for name, several in homes.items() if len(several) > 1 and name not in SHARED_NAMES}
    assert twice == {}
    assert len(SHARED_NAMES) <= 5 and all(len(homes[name]) > 1 for name in SHARED_NAMES)


def test_no_module_ends_in_ing_beside_a_twin():
    leaves = defaultdict(list)
    for name in modules():
        leaves[name.rpartition(".")[2]].append(name)
    for leaf, names in leaves.items():
        if leaf.endswith("ing"):
            stem = leaf.removesuffix("ing")
            twins = [
                other for other in leaves if other != leaf and other in (stem, f"{stem}e", f"{stem}s", f"{stem}es", stem[:-1])
            ]
            assert twins == [], f"{names} beside {twins}"


def test_sql_stands_in_the_store_and_in_the_document_index_alone():
    statement = re.compile(r"\b(SELECT .+ FROM|INSERT INTO|DELETE FROM|UPDATE \w+ SET|CREATE (TABLE|INDEX))\b", re.DOTALL)
    for name, tree in modules().items():
        # A journal of tradememory-protocol is an SQLite file of another program.
        if name.split(".")[1:2] in (["store"], ["documents"]) or name.startswith("memtape.brokers.formats.tradememory"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not statement.search(node.value), f"{name}:{node.lineno}"


def test_surfaces_open_no_tables():
    for name, tree in modules().items():
        if name.startswith("memtape.surfaces"):
            used = {module for module in imported(tree, set(modules())) if module.startswith("memtape.store")}
            assert used <= {"memtape.store.cutoff", "memtape.store.schema", "memtape.store.private_files"}, name


def test_only_the_view_asks_whether_a_head_was_given():
    for path in sorted((SOURCE / "engine").rglob("*.py")):
        if path.parent.name != "view":
            assert not re.search(r"(?<!owner_)\bhead is (not )?None", path.read_text(encoding="utf-8")), path


def test_agent_memory_has_no_base_class():
    from memtape.engine import AgentMemory

    assert AgentMemory.__mro__ == (AgentMemory, object)
