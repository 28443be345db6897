"""What a decision rests on: lines of documents, recorded with their words, so that it can be seen later whether they still stand.

A decision names the lines; what stood there is added at the door, and lines that say something else than was read are refused.
The rules and passages of a brief that was shown for a decision or a run belong to it too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from memtape.core.brief import Papers
from memtape.core.observed import QUOTED_LENGTH, Cite, Decision, Observed, Tick
from memtape.core.values import read
from memtape.documents.citations import Citation, Verdict, cite, verify
from memtape.engine.pinning import Pinning
from memtape.errors import Invalid
from memtape.store.known import EVERYTHING

if TYPE_CHECKING:
    from memtape.engine.memory import Memory

LOOKED_AT = 2_000  # decisions and briefs, where neither a decision nor a run is named
Role = Literal["cited", "rule", "document"]  # by the decision itself; shown to it as a rule; shown to it as a passage


@dataclass(frozen=True, slots=True)
class Rested:
    """A citation of a decision or run, and how it stands today."""

    decision: str | None
    run: str | None
    role: Role
    citation: Citation
    verdict: Verdict


class Citing(Pinning):
    """The citations of one agent's decisions."""

    memory: Memory

    def with_citations(self, value: Observed) -> Observed:
        """A decision, or a tick with some, whose citations have the words that stand there; what came before is left as it is."""
        decisions = value.decision or () if isinstance(value, Tick) else (value,) if isinstance(value, Decision) else ()
        if not any(decision.citations for decision in decisions) or self._is_known(value):
            return value
        cited = tuple(replace(each, citations=self._quoted(each.citations)) if each.citations else each for each in decisions)
        return replace(value, decision=cited) if isinstance(value, Tick) else cited[0]

    def _is_known(self, value: Observed) -> bool:
        with self.memory.reading(self.agent.id) as tables:
            return isinstance(value, Tick | Decision) and tables.logged(value.kind, value.id or "") is not None

    def _quoted(self, citations: tuple[Cite, ...]) -> tuple[Cite, ...]:
        return tuple(self._quote(number, each) for number, each in enumerate(citations))

    def _quote(self, number: int, given: Cite) -> Cite:
        field = f"citations.{number}"
        text = self._text(given.path)
        if text is None:
            raise Invalid(f"{field}.path", f"there is no document {given.path}", "Cite what search_documents returned")
        first, last = given.start_line, given.end_line
        if given.content_hash is not None:
            found = verify(Citation(given.path, first, last, given.content_hash, given.quoted or ""), text)
            if found.start_line is None or found.end_line is None:
                problem = f"lines {first} to {last} of {given.path} no longer say what was cited"
                raise Invalid(f"{field}.content_hash", problem, "Search again, and cite what stands there now")
            first, last = found.start_line, found.end_line
        here = cite(given.path, text, first, last)
        if len(here.quoted) > QUOTED_LENGTH:
            problem = f"these lines have {len(here.quoted):,} characters"
            raise Invalid(f"{field}.end_line", problem, f"Cite at most {QUOTED_LENGTH:,}")
        return Cite(path=given.path, start_line=first, end_line=last, content_hash=here.content_hash, quoted=here.quoted)

    def citations(self, *, decision: str | None = None, run: str | None = None, limit: int = 100) -> list[Rested]:
        """What a decision, a run, or any of the latest rest on, newest first: their own citations, and what they were shown."""
        found: list[tuple[int, str | None, str | None, Role, Citation]] = []
        with self.memory.reading(self.agent.id) as tables:
            latest = None if decision or run else LOOKED_AT
            for item in tables.items("decision", EVERYTHING, keys=[decision] if decision else None, newest=True, limit=latest):
                of = (item.body.get("run") or {}).get("id")
                if run in (None, of):
                    for cited in item.body.get("citations") or ():
                        found.append((item.seq, item.key, of, "cited", read(Citation, cited)))
            for item in tables.items("shown", EVERYTHING, newest=True, limit=latest):
                body = item.body
                if not body.get("papers") or decision not in (None, body.get("decision")) or run not in (None, body.get("run")):
                    continue
                papers = [read(Papers, each.body) for each in tables.items("papers", EVERYTHING, keys=[body["papers"]])]
                for role, one in _told(papers):
                    found.append((item.seq, body.get("decision"), body.get("run"), role, one))
        found.sort(key=lambda row: -row[0])
        return [Rested(of, in_run, role, one, self.verify_citation(one)) for _, of, in_run, role, one in found[:limit]]


def _told(papers: list[Papers]) -> list[tuple[Role, Citation]]:
    rules: list[tuple[Role, Citation]] = [
        ("rule", Citation(one.path, one.start_line, one.end_line, one.content_hash, one.text))
        for each in papers for one in each.rules
    ]  # fmt: skip
    passages: list[tuple[Role, Citation]] = [
        ("document", Citation(one.path, one.start_line, one.end_line, one.content_hash, one.quoted))
        for each in papers for one in each.documents
    ]  # fmt: skip
    return rules + passages
