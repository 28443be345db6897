"""What a decision rests on: lines of documents, recorded with their words, so that it can be seen later whether they still stand.

A decision names the lines; what stood there is added at the door, and lines that say something else than was read are refused.
The rules and passages of a brief that was shown for a decision or a run belong to it too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from memtape.core.brief.inputs import BriefDocuments, PinnedRule
from memtape.core.observed import QUOTED_LENGTH, Decision, DocumentRef, Observed, Tick
from memtape.core.values import read
from memtape.documents.citations import Citation, CitationVerdict, check_citation, cite, content_hash, lines_of
from memtape.engine.documents.rules import Pinning
from memtape.errors import Invalid
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.engine.memory import Memory

LOOKED_AT = 2_000  # decisions and briefs, where neither a decision nor a run is named
Role = Literal["cited", "rule", "document"]  # by the decision itself; shown to it as a rule; shown to it as a passage


@dataclass(frozen=True, slots=True)
class DecisionCitation:
    """A citation of a decision or run, and how it stands today."""

    decision: str | None
    run: str | None
    role: Role
    citation: Citation
    verdict: CitationVerdict


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

    def _quoted(self, citations: tuple[DocumentRef, ...]) -> tuple[DocumentRef, ...]:
        return tuple(self._quote(number, each) for number, each in enumerate(citations))

    def _quote(self, number: int, given: DocumentRef) -> DocumentRef:
        field = f"citations.{number}"
        text = self._text(given.path)
        if text is None:
            raise Invalid(f"{field}.path", f"there is no document {given.path}", "Cite what search_documents returned")
        first, last = given.start_line, given.end_line
        if given.content_hash is not None:
            found = check_citation(Citation(given.path, first, last, given.content_hash, given.quoted or ""), text)
            if found.start_line is None or found.end_line is None:
                problem = f"lines {first} to {last} of {given.path} no longer say what was cited"
                raise Invalid(f"{field}.content_hash", problem, "Search again, and cite what stands there now")
            first, last = found.start_line, found.end_line
        if not 1 <= first <= last <= len(lines_of(text)):
            problem = f"{given.path} has no lines {first} to {last}"
            raise Invalid(f"{field}.end_line", problem, "Cite lines that a search returned")
        here = cite(given.path, text, first, last)
        if len(here.quoted) > QUOTED_LENGTH:
            problem = f"these lines have {len(here.quoted):,} characters"
            raise Invalid(f"{field}.end_line", problem, f"Cite at most {QUOTED_LENGTH:,}")
        return DocumentRef(path=given.path, start_line=first, end_line=last, content_hash=here.content_hash, quoted=here.quoted)

    def citations(self, *, decision: str | None = None, run: str | None = None, limit: int = 100) -> list[DecisionCitation]:
        """What a decision, a run, or any of the latest rest on, newest first: their own citations, and what they were shown."""
        found: list[tuple[int, str | None, str | None, Role, Citation]] = []
        latest = None if decision or run else LOOKED_AT
        runs: dict[str, str | None] = {}
        with self.memory.reading(self.agent.id) as tables:
            for item in tables.items("decision", EVERYTHING, keys=[decision] if decision else None, newest=True, limit=latest):
                runs[item.key] = of = (item.body.get("run") or {}).get("id")
                if run in (None, of):
                    found += [(item.seq, item.key, of, "cited", _citation(cited)) for cited in item.body.get("citations") or ()]
            for item in tables.items("shown", EVERYTHING, newest=True, limit=latest):
                by, of = item.body.get("decision"), item.body.get("run")
                if item.body.get("papers") and decision in (None, by) and (run in (None, of) or runs.get(by or "") == run):
                    papers = tables.items("papers", EVERYTHING, keys=[item.body["papers"]])
                    told = _told([read(BriefDocuments, each.body) for each in papers], item.body.get("told"))
                    found += [(item.seq, by, of or runs.get(by or ""), role, one) for role, one in told]
        found.sort(key=lambda row: -row[0])
        return [DecisionCitation(of, in_run, role, one, self.verify_citation(one)) for _, of, in_run, role, one in found[:limit]]


def _citation(cited: Mapping[str, Any]) -> Citation:
    """A citation as it was recorded; one that came with a file of somebody else's may lack its words."""
    return Citation(
        cited["path"], cited["start_line"], cited["end_line"], cited.get("content_hash") or "", cited.get("quoted") or ""
    )


def _told(papers: Sequence[BriefDocuments], lines: Mapping[str, int] | None) -> Iterator[tuple[Role, Citation]]:
    """What of the papers stood in the brief; of a rule that was cut, the lines that were told."""
    for each in papers:
        for rule in each.rules:
            if lines is None or rule.id in lines:
                yield "rule", _cut(rule, None if lines is None else lines[rule.id] - 1)
        for one in each.documents:
            if lines is None or one.id in lines:
                yield "document", Citation(one.path, one.start_line, one.end_line, one.content_hash, one.quoted)


def _cut(rule: PinnedRule, told: int | None) -> Citation:
    """The beginning of a rule that has so many lines with words.

    >>> rule = PinnedRule("r", "RULES.md", "one\\n\\ntwo\\nthree", "RULES.md", 1, 4, "")
    >>> _cut(rule, 2).quoted, _cut(rule, 2).end_line
    ('one\\n\\ntwo', 3)
    """
    lines = lines_of(rule.text)[: rule.end_line - rule.start_line + 1]
    kept, left = 0, len(lines) if told is None else told
    for number, line in enumerate(lines, 1):
        if line.strip() and left > 0:
            kept, left = number, left - 1
    words = "\n".join(lines[:kept])
    whole = kept == len(lines)
    end = rule.end_line if whole else rule.start_line + max(kept, 1) - 1
    return Citation(rule.path, rule.start_line, end, rule.content_hash if whole else content_hash(words), words)
