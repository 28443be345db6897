"""Runs that a page starts and does not wait for: a chat message, Run now, a re-examination; and answers that are being written.

A model takes minutes, and a page must answer at once. So the operation runs in a thread of its own, and the page that is opened
next refreshes itself until the run is on record and has ended. What can be checked is checked before the thread starts, so that
the user sees it at once; what goes wrong later, before a run is on record, is kept as the agent's last problem.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, Thread
from typing import TYPE_CHECKING, Literal

from memtape.core.decisions.runs import MAX_RUN_TEXT
from memtape.errors import Conflict, MemtapeError

if TYPE_CHECKING:
    from memtape.engine import Memory

log = logging.getLogger(__name__)

MAX_WAITING = 16  # per agent; each holds a thread while it waits for its turn

RequestKind = Literal["chat", "manual", "re-examination"]


@dataclass(frozen=True, slots=True)
class RequestedRun:
    """A run that somebody asked for on a page. Two equal ones are one: a button that is pressed twice runs once."""

    agent: str
    kind: RequestKind
    what: str  # the message, the prompt, or the decision to examine again

    @property
    def failure(self) -> str:
        """The words before the reason why it did not begin."""
        if self.kind == "chat":
            return f"The message “{self.what[:80]}{'…' if len(self.what) > 80 else ''}” was not answered."
        return "The run did not begin." if self.kind == "manual" else "The re-examination did not begin."


class BackgroundRuns:
    """The runs that pages of this process have started and that have not ended, and the last problem of each agent."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lock = Lock()
        # Each with the newest run of its kind on record when it was asked for: a later one with the same text is this one.
        self._waiting: dict[RequestedRun, str | None] = {}
        self._problems: dict[str, str] = {}

    def start(self, asked: RequestedRun, work: Callable[[], object]) -> bool:
        """Do the work in a thread of its own. Returns False if the same was asked for and has not ended.

        Raises Invalid without a runner that can be started, Conflict if too much is waiting for the agent.
        """
        check_runner(self._memory, asked.agent)
        newest = next(iter(self._memory.agent(asked.agent).runs.newest(limit=1, kind=asked.kind)), None)
        with self._lock:
            if asked in self._waiting:
                return False
            if sum(each.agent == asked.agent for each in self._waiting) >= MAX_WAITING:
                raise Conflict("agent", f"{MAX_WAITING} runs of {asked.agent} are waiting", "Try again when some have ended")
            self._waiting[asked] = newest.id if newest is not None else None
            self._problems.pop(asked.agent, None)
        Thread(target=self._work, args=(asked, work), name=f"memtape-page-{asked.agent}", daemon=True).start()
        return True

    def _work(self, asked: RequestedRun, work: Callable[[], object]) -> None:
        problem = "An internal error of memtape; its log says more."
        try:
            work()
            problem = ""
        except MemtapeError as error:
            problem = str(error)
        # The outermost edge of the thread: a bug is logged, and the page says that there was one.
        except Exception:
            log.exception("the %s of %s failed", asked.kind, asked.agent)
        finally:
            with self._lock:
                del self._waiting[asked]
                if problem:
                    self._problems[asked.agent] = f"{asked.failure} {problem}"

    def waiting(self, agent: str, kind: RequestKind | None = None) -> dict[RequestedRun, str | None]:
        """What was asked for and has not ended, oldest first, each with the newest run of its kind at that time.

        A page asks this before it reads the runs: a run that ends in between is then seen twice, and never not at all.
        """
        with self._lock:
            return {each: newest for each, newest in self._waiting.items() if each.agent == agent and kind in (None, each.kind)}

    def problem(self, agent: str) -> str:
        """Why the last run that was asked for did not begin; empty if it did, or if another was asked for since."""
        with self._lock:
            return self._problems.get(agent, "")


class UnfinishedAnswers:
    """What the coach has written so far in the turns that this process answers, by turn. Nothing of it is stored."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._texts: dict[str, str] = {}

    @contextmanager
    def hearing(self, turn: str) -> Iterator[Callable[[str], None]]:
        """Gives what hears the answer of a turn; what it heard is dropped in the end."""

        def on_text(piece: str) -> None:
            with self._lock:
                self._texts[turn] = (self._texts.get(turn, "") + piece)[:MAX_RUN_TEXT]

        try:
            yield on_text
        finally:
            with self._lock:
                self._texts.pop(turn, None)

    def texts(self) -> Mapping[str, str]:
        """The texts so far. A page asks this before it reads the chat: an answer that ends in between is then on record."""
        with self._lock:
            return dict(self._texts)


def check_runner(memory: Memory, agent: str) -> None:
    """Raises what keeps an agent's runner from being used: none is configured, its name is wrong, a package is missing."""
    from memtape.surfaces.run_host import run_host

    run_host(memory).runner_of(memory.agent_config(agent).config)
