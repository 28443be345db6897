"""Runs the attacks and says what they changed: `memtape attack`.

Each case runs on a copy of a prepared store. What counts is measured before and after, the brief is read by the gullible
agent, and the same case is run again with the gates off. A suite whose attacks change nothing even then would prove nothing.

Three things keep a run short and change no result. A store that is still the prepared one, byte for byte, is not measured
again, nor is its brief read. An attack whose bare words already persuade the agent is not carried out without gates, because
the agent reads words before figures. And without gates an attack ends as soon as it has succeeded.
"""

from __future__ import annotations

import filecmp
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from memtape.errors import Invalid, MemtapeError
from memtape.lab.attack.cases import AttackCase
from memtape.lab.attack.desks import DESKS, STORE_FILE, Desk, copy_desk, open_desk, prepare_desk
from memtape.lab.attack.doors import carry_out, carry_out_without_gates, control_calls
from memtape.lab.attack.generator import attack_cases
from memtape.lab.attack.gullible_agent import Action, decide_by_brief
from memtape.lab.attack.measures import (
    DeskState,
    attacker_share,
    brief_for_model,
    brief_without_gates,
    measure_state,
)

DEFAULT_CASES, DEFAULT_SEED = 520, 19
# A larger store is not verified after every case, nor is it asked what the account loses on and for every point of its equity:
# these follow from the rest.
VERIFIED_TRADES = 1_000
CASES_AT_ONCE = 20  # that one process is given


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What one attack changed on one desk."""

    desk: str
    case: AttackCase
    recorded: int
    refused: int
    changed: tuple[str, ...]
    share: float
    flipped: bool
    obeyed: bool  # flipped by words
    because: str
    leaked: int
    defects: tuple[str, ...]
    flipped_without_gates: bool | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """A desk before the attack: what counts, and the brief."""

    state: DeskState
    brief: str


class AttackSuite:
    """Desks prepared in a folder, and the attacks on them."""

    def __init__(self, folder: Path, prepared: Mapping[str, Path] | None = None) -> None:
        self._folder = folder
        self._prepared: dict[str, Path] = dict(prepared or {})
        self._states: dict[str, DeskState] = {}
        self._briefs: dict[tuple[str, str], str] = {}

    def run(self, case: AttackCase, desk: Desk, *, without_gates: bool = True) -> CaseResult:
        """Runs one attack on a copy of a desk, and again with the gates off."""
        before = self._baseline(case, desk)
        with self._copy(desk) as folder, open_desk(folder) as memory:
            results = carry_out(case, folder, memory)
            brief, after, damaged = before.brief, before.state, list[str]()
            if case.files or case.control or case.control_files or not _is_unwritten(folder, self._prepared[desk.name]):
                brief = brief_for_model(memory, case)
                after = measure_state(memory, with_history=_is_small(desk))
                damaged = [] if not _is_small(desk) or verify_store(memory).ok else ["verify reports a damaged store"]
        was, now = decide_by_brief(before.brief), decide_by_brief(brief)
        return CaseResult(
            desk.name,
            case,
            len(results.recorded),
            results.refused,
            after.changed(before.state),
            attacker_share(brief, before.brief, case),
            was.action != now.action,
            was.action != now.action == "obeys",
            now.because,
            results.leaked,
            (*results.defects, *damaged),
            self._flipped_without_gates(case, desk, before) if without_gates else None,
        )

    def _flipped_without_gates(self, case: AttackCase, desk: Desk, before: Baseline) -> bool:
        usual = decide_by_brief(before.brief).action
        if usual != decide_by_brief(brief_without_gates(case, "")).action == "obeys":
            return True
        with self._copy(desk) as folder, open_desk(folder) as memory:
            return any(self._flips(case, memory, usual) for _ in carry_out_without_gates(case, folder, memory))

    def _flips(self, case: AttackCase, memory: Memory, usual: Action) -> bool:
        try:
            figures = brief_for_model(memory, case)
        except MemtapeError:
            # The attack deleted the agent.
            return True
        return decide_by_brief(brief_without_gates(case, figures)).action != usual

    def _baseline(self, case: AttackCase, desk: Desk) -> Baseline:
        if case.control or case.control_files:
            with self._copy(desk) as folder, open_desk(folder) as memory:
                control_calls(case, folder, memory)
                return Baseline(measure_state(memory, with_history=_is_small(desk)), brief_for_model(memory, case))
        asked = desk.name, str(case.question)
        if desk.name not in self._states or asked not in self._briefs:
            with self._copy(desk) as folder, open_desk(folder) as memory:
                self._states[desk.name], self._briefs[asked] = (
                    measure_state(memory, with_history=_is_small(desk)),
                    brief_for_model(memory, case),
                )
        return Baseline(self._states[desk.name], self._briefs[asked])

    @contextmanager
    def _copy(self, desk: Desk) -> Iterator[Path]:
        if desk.name not in self._prepared:
            self._prepared[desk.name] = prepare_desk(desk, self._folder / f"prepared-{desk.name}")
        folder = copy_desk(self._prepared[desk.name], self._folder / f"attacked-{desk.name}")
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


def chosen_desks(names: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the desks of these names, or all. Raises `Invalid` if there is none of a name."""
    if unknown := [name for name in names or () if name not in DESKS]:
        raise Invalid("desk", f"there is no desk '{unknown[0]}'", f"Choose among {', '.join(DESKS)}")
    return tuple(names or DESKS)


def run_attacks(
    count: int = DEFAULT_CASES,
    seed: int = DEFAULT_SEED,
    desks: Sequence[str] = tuple(DESKS),
    *,
    without_gates: bool = True,
    jobs: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[CaseResult]:
    """Runs so many attacks on each desk, in as many processes as `jobs` says. Their number does not change the results."""
    starts = [(desk, start) for desk in desks for start in range(0, count, CASES_AT_ONCE)]
    results: list[CaseResult] = []
    with tempfile.TemporaryDirectory(prefix="memtape-attack-") as folder:
        prepared = {name: prepare_desk(DESKS[name], Path(folder) / f"prepared-{name}") for name in desks}
        run = partial(_run_some, folder, prepared, count, seed, without_gates)
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            for some in map(run, starts) if jobs == 1 else pool.map(run, starts):
                results += some
                on_progress(len(results), count * len(desks))
    return results


def _run_some(
    folder: str, prepared: Mapping[str, Path], count: int, seed: int, without_gates: bool, start: tuple[str, int]
) -> list[CaseResult]:
    """Runs the attacks from one number on, as many as a process is given at once."""
    desk, first = start
    with tempfile.TemporaryDirectory(prefix="part-", dir=folder) as own:
        suite = AttackSuite(Path(own), prepared)
        cases = attack_cases(count, seed)[first : first + CASES_AT_ONCE]
        return [suite.run(case, DESKS[desk], without_gates=without_gates) for case in cases]


def _is_unwritten(folder: Path, prepared: Path) -> bool:
    """Returns True if nothing was written to the store of a copy: not a byte differs, and nothing waits in its journal."""
    journal = folder / f"{STORE_FILE}-wal"
    waits = journal.exists() and journal.stat().st_size > 0
    return not waits and filecmp.cmp(folder / STORE_FILE, prepared / STORE_FILE, shallow=False)


def _is_small(desk: Desk) -> bool:
    return desk.trades <= VERIFIED_TRADES
