"""A model as the decision maker of an arm: asked as in `memtape sim`, with the brief that the arm may know.

Its answers are kept as lines of a file, if a folder is given: an interrupted run does not pay for them again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from memtape.core.codec import plain
from memtape.core.decisions.tick_answers import TickAnswer
from memtape.core.values import read
from memtape.engine.brief_question import AssembledBrief
from memtape.lab.trial.arm_memory import ArmMemory
from memtape.plugs.models import Model
from memtape.sim.recorded_model import RecordedModelTrader, UseLimits


class ModelDecider(RecordedModelTrader):
    """A model in one arm of a trial."""

    def __init__(self, memory: ArmMemory, model: Model, limits: UseLimits, answers: Path | None) -> None:
        self._memory, self._file = memory, answers
        super().__init__(memory.agent, model, limits)

    def _recorded(self) -> Mapping[str, TickAnswer]:
        if self._file is None or not self._file.is_file():
            return {}
        found = {}
        text = self._file.read_text(encoding="utf-8", errors="replace")
        if text and not text.endswith("\n"):
            # A run that was killed while it wrote left part of a line: the next answer must not be joined to it.
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write("\n")
        for line in text.split("\n"):  # a model's words may hold other ends of lines
            try:
                answer = read(TickAnswer, json.loads(line))
            except ValueError:
                continue  # part of a line
            found[answer.key] = answer
        return found

    def _brief(self, symbol: str) -> AssembledBrief:
        return self._memory.made_brief(symbol)

    def _record(self, answer: TickAnswer, made: AssembledBrief) -> TickAnswer:
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(plain(answer), ensure_ascii=False) + "\n")
        return answer
