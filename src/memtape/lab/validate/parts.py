"""A walk in parts: each part is some decisions, asked of the store in this process or in another.

A part depends only on the store and the terms, so it can be done twice, by anyone and in any order, with the same numbers. Parts
that are done are kept as files if a folder is given: an interrupted run goes on where it ended.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

from memtape.compose import open_memory
from memtape.core.codec import canonical_plain, digest, micros, moment
from memtape.core.memory.episodes import Episode
from memtape.core.validation.decisions import SizeSums, WalkedDecision
from memtape.errors import Invalid, MemtapeError
from memtape.lab.validate.history import ValidatedHistory
from memtape.lab.validate.walk import Walker, WalkTerms, engine_memory


class NumberedPart(Protocol):
    """A part of any study, for any process."""

    @property
    def number(self) -> int:
        """Its place among the parts."""
        ...


P = TypeVar("P", bound=NumberedPart)
Q = TypeVar("Q", bound=NumberedPart, contravariant=True)
PART_DECISIONS = 100
MAX_TRIES = 3
RAY_START_SECONDS = "300"  # a busy machine needs more than the 60 that Ray waits for itself
Progress = Callable[[int, int], object]
TIMES = ("entry_at", "exit_at")


@dataclass(frozen=True, slots=True)
class WalkPart:
    """Some decisions of a walk, for any process."""

    store: str
    owner: str | None
    agent: str
    terms: dict[str, Any]
    group: str | None
    trades: tuple[str, ...]  # ids, in order of their entries
    number: int


class EngineLost(MemtapeError):
    """engine: part {number} of the walk was lost {tries} times because its worker died. Run it again: finished parts are kept."""


def walk_part(part: WalkPart) -> dict[str, Any]:
    """Walks one part in this process. Returns its decisions as JSON data and how many recalls they took."""
    with open_memory(part.store or None, part.owner) as memory, engine_memory(memory.agent(part.agent)) as asked:
        walker = Walker(asked, WalkTerms.from_dict(part.terms))
        wanted: dict[str, Episode] = {e.id: e for e in asked.view.memory_tables.episodes(list(part.trades)) if e.known_to is None}
        rows, without = [], 0
        for id_ in part.trades:
            decision = walker.decide(wanted[id_], _group_of(wanted[id_], part.group))
            if decision is None:
                without += 1
            else:
                rows.append(decision_json(decision))
    return {"number": part.number, "decisions": rows, "without_outcome": without, "recalls": walker.recalls}


def _group_of(episode: Episode, group: str | None) -> str:
    return "" if group is None else str(getattr(episode, group))


def decision_json(decision: WalkedDecision) -> dict[str, Any]:
    """Returns a decision as JSON data; floats keep every digit."""
    stored = asdict(decision)
    return stored | {name: micros(stored[name]) for name in TIMES} | {"literal": list(decision.literal)}


def decision_from_json(stored: Mapping[str, Any]) -> WalkedDecision:
    """Returns the decision of JSON data."""
    read = {name: stored[name] for name in (field.name for field in fields(WalkedDecision))}
    read |= {name: moment(stored[name]) for name in TIMES}
    read |= {"literal": tuple(stored["literal"]), "evidence": SizeSums(**stored["evidence"])}
    read["variants"] = {name: SizeSums(**sums) for name, sums in stored["variants"].items()}
    return WalkedDecision(**read)


def make_parts(history: ValidatedHistory, terms: WalkTerms) -> list[WalkPart]:
    """Divides the decisions after the split into parts. Trades of one moment stay together: they share their questions."""
    entered = [e for e in history.episodes if e.entry_at >= terms.split]
    parts: list[list[str]] = [[]]
    last = None
    for episode in entered:
        if len(parts[-1]) >= PART_DECISIONS and episode.entry_at != last:
            parts.append([])
        parts[-1].append(episode.id)
        last = episode.entry_at
    asked = terms.as_dict()
    return [
        WalkPart(history.store, history.owner, history.agent_id, asked, history.group, tuple(ids), number)
        for number, ids in enumerate(parts) if ids
    ]  # fmt: skip


class KeptParts(Protocol[Q]):
    """Where finished parts are kept."""

    def load(self, part: Q, /) -> dict[str, Any] | None:
        """Returns a part that an earlier run finished."""
        ...

    def save(self, part: Q, found: Mapping[str, Any], /) -> None:
        """Keeps a finished part."""
        ...


@dataclass(frozen=True, slots=True)
class PartFiles:
    """Where finished parts are kept. They are found again by what they depend on: version, data and terms."""

    folder: Path | None
    data: str  # hash of the history

    def _path(self, part: WalkPart) -> Path | None:
        if self.folder is None:
            return None
        depends = canonical_plain({
            "memtape": version("memtape"), "data": self.data, "terms": part.terms, "group": part.group,
            "trades": list(part.trades),
        })  # fmt: skip
        return self.folder / f"part-{digest(depends)[:24]}.json"

    def load(self, part: WalkPart) -> dict[str, Any] | None:
        """Returns a part that an earlier run finished."""
        return load_kept(self._path(part), part.number)

    def save(self, part: WalkPart, found: Mapping[str, Any]) -> None:
        """Keeps a finished part."""
        save_kept(self._path(part), found)


def check_kept_folder(folder: Path | None) -> None:
    """Makes the folder of finished parts. Raises Invalid if it cannot be one: before the work, not after it."""
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Invalid("keep", f"{folder} cannot be a folder: {error.strerror}", "Name another folder") from None


def load_kept(path: Path | None, number: int) -> dict[str, Any] | None:
    """Returns a finished part from its file; None if there is none, or one that was written in part."""
    if path is None or not path.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return found | {"number": number}


def save_kept(path: Path | None, found: Mapping[str, Any]) -> None:
    """Writes a finished part, whole or not at all."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(found), encoding="utf-8")
        fresh.replace(path)


def run_parts(
    parts: Sequence[P], files: KeptParts[P], *, engine: str = "serial", workers: int = 1, address: str | None = None,
    on_progress: Progress | None = None, work: Callable[[P], dict[str, Any]],
) -> list[dict[str, Any]]:  # fmt: skip
    """Returns all parts in order, those of an earlier run from their files."""
    found = {part.number: kept for part in parts if (kept := files.load(part)) is not None}
    left = [part for part in parts if part.number not in found]

    def finished(part: P, result: dict[str, Any]) -> None:
        files.save(part, result)
        found[part.number] = result
        if on_progress is not None:
            on_progress(len(found), len(parts))

    if engine == "serial":
        for part in left:
            finished(part, work(part))
    elif engine == "pool":
        _in_pool(left, work, workers, finished)
    elif engine == "ray":
        _on_ray(left, work, workers, address, finished)
    else:
        raise Invalid("engine", f"there is no engine '{engine}'", "Choose serial, pool or ray")
    return [found[part.number] for part in parts]


def _in_pool(
    parts: Sequence[P], work: Callable[[P], dict[str, Any]], workers: int,
    finished: Callable[[P, dict[str, Any]], None],
) -> None:  # fmt: skip
    """Does parts in processes. If one dies, a new pool does again what was not finished."""
    left, tries = {part.number: part for part in parts}, 0
    while left:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            waiting: dict[Future[dict[str, Any]], P] = {pool.submit(work, part): part for part in left.values()}
            try:
                while waiting:
                    for done in wait(waiting, return_when=FIRST_COMPLETED).done:
                        part = waiting.pop(done)
                        finished(part, done.result())
                        del left[part.number]
            except BrokenProcessPool:
                tries += 1
                if tries >= MAX_TRIES:
                    raise EngineLost(number=next(iter(left)), tries=tries) from None


def _on_ray(
    parts: Sequence[P], work: Callable[[P], dict[str, Any]], workers: int, address: str | None,
    finished: Callable[[P, dict[str, Any]], None],
) -> None:  # fmt: skip
    """Does parts as tasks of Ray, on this machine or on the cluster at `address`. Ray repeats the task of a dead worker."""
    try:
        ray = import_module("ray")
    except ModuleNotFoundError:
        raise Invalid("engine", "Ray is not installed", "Install it: pip install 'memtape[ray]', or use --engine pool") from None
    started = not ray.is_initialized()
    if started:
        os.environ.setdefault("RAY_raylet_start_wait_time_s", RAY_START_SECONDS)
        options = {"num_cpus": workers, "include_dashboard": False} if address is None else {"address": address}
        try:
            ray.init(logging_level="ERROR", log_to_driver=False, **options)
        except (ConnectionError, ValueError) as error:
            raise Invalid("address", f"no Ray cluster answers at {address}: {error}", "Start one with ray start --head") from None
    try:
        task = ray.remote(max_retries=MAX_TRIES - 1)(work)
        waiting = {task.remote(part): part for part in parts}
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1)
            part = waiting.pop(done[0])
            try:
                finished(part, ray.get(done[0]))
            except ray.exceptions.WorkerCrashedError:
                raise EngineLost(number=part.number, tries=MAX_TRIES) from None
            except ray.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, MemtapeError) else error from None
    finally:
        if started:
            ray.shutdown()
