"""What a decision rests on: lines of documents, recorded with their words, so that it can be seen later whether they still stand.

A decision names the lines; what stands there is added when it arrives, and lines that say something else than the decision read
are refused. The rules and passages of a brief that was shown for a decision or a run belong to it too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from memtape.core.brief.inputs import BriefDocuments
from memtape.core.observed import QUOTED_LENGTH, Decision, DocumentRef, Tick
from memtape.core.values import read
from memtape.documents.citations import Citation, CitationVerdict, check_citation, cite, content_hash, lines_of
from memtape.engine.documents.reader import DocumentReader
from memtape.errors import Invalid
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.core.brief.inputs import PinnedRule
    from memtape.core.observed import Observed
    from memtape.engine.scope import AgentScope

MAX_ITEMS_BACK = 2_000  # decisions and briefs that are read where neither a decision nor a run is named
Role = Literal["cited", "rule", "document"]  # by the decision itself; shown to it as a rule; shown to it as a passage


@dataclass(frozen=True, slots=True)
class DecisionCitation:
    """A citation of a decision or run, and whether its lines still say what they said."""

    decision: str | None
    run: str | None
    role: Role
    citation: Citation
    verdict: CitationVerdict


class Citations:
    """The citations of one agent's decisions."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope = scope

    def add_quotes(self, value: Observed) -> Observed:
        """A decision, or a tick with decisions, whose citations carry the words of the lines they name.

        A value that is recorded already is returned as it is.
        """
        decisions = cited_decisions(value)
        if not decisions:
            return value
        with self._scope.reading() as tables:
            if isinstance(value, Tick | Decision) and tables.logged(value.kind, value.id or "") is not None:
                return value
            reader = DocumentReader(self._scope.resources, tables)
            quoted = tuple(
                replace(each, citations=_quoted(reader, each.citations)) if each.citations else each for each in decisions
            )
        return replace(value, decision=quoted) if isinstance(value, Tick) else quoted[0]

    def of(self, *, decision: str | None = None, run: str | None = None, limit: int = 100) -> list[DecisionCitation]:
        """What a decision, a run, or any of the latest rest on, newest first: their own citations, and what they were shown."""
        found: list[tuple[int, str | None, str | None, Role, Citation]] = []
        newest = None if decision or run else MAX_ITEMS_BACK
        runs: dict[str, str | None] = {}
        with self._scope.reading() as tables:
            for item in tables.items("decision", EVERYTHING, keys=[decision] if decision else None, newest=True, limit=newest):
                runs[item.key] = of = (item.body.get("run") or {}).get("id")
                if run in (None, of):
                    found += [(item.seq, item.key, of, "cited", _recorded(ref)) for ref in item.body.get("citations") or ()]
            for item in tables.items("shown", EVERYTHING, newest=True, limit=newest):
                by, of = item.body.get("decision"), item.body.get("run")
                if item.body.get("papers") and decision in (None, by) and (run in (None, of) or runs.get(by or "") == run):
                    documents = tables.items("papers", EVERYTHING, keys=[item.body["papers"]])
                    shown = _shown_in_brief([read(BriefDocuments, each.body) for each in documents], item.body.get("told"))
                    found += [(item.seq, by, of or runs.get(by or ""), role, one) for role, one in shown]
            found.sort(key=lambda row: -row[0])
            reader = DocumentReader(self._scope.resources, tables)
            return [
                DecisionCitation(of, in_run, role, one, reader.check_everywhere(one))
                for _, of, in_run, role, one in found[:limit]
            ]


def cited_decisions(value: Observed) -> tuple[Decision, ...]:
    """The decisions of a value, if any of them cites a document."""
    decisions = value.decision or () if isinstance(value, Tick) else (value,) if isinstance(value, Decision) else ()
    return tuple(decisions) if any(decision.citations for decision in decisions) else ()


def _quoted(reader: DocumentReader, refs: tuple[DocumentRef, ...]) -> tuple[DocumentRef, ...]:
    return tuple(_quote(reader, number, ref) for number, ref in enumerate(refs))


def _quote(reader: DocumentReader, number: int, ref: DocumentRef) -> DocumentRef:
    """A reference with the words that stand on its lines now; raises Invalid if they are not the words that were cited."""
    field, text = f"citations.{number}", reader.text(ref.path)
    if text is None and ref.content_hash is not None:
        # The file was renamed between the search and the decision.
        cited = Citation(ref.path, ref.start_line, ref.end_line, ref.content_hash, ref.quoted or "")
        if (now := reader.check_everywhere(cited)).path is not None and now.start_line and now.end_line:
            ref = replace(ref, path=now.path, start_line=now.start_line, end_line=now.end_line)
            text = reader.text(now.path)
    if text is None:
        raise Invalid(f"{field}.path", f"there is no document {ref.path}", "Cite what search_documents returned")
    first, last = ref.start_line, ref.end_line
    if ref.content_hash is not None:
        found = check_citation(Citation(ref.path, first, last, ref.content_hash, ref.quoted or ""), text)
        if found.start_line is None or found.end_line is None:
            problem = f"lines {first} to {last} of {ref.path} no longer say what was cited"
            raise Invalid(f"{field}.content_hash", problem, "Search again, and cite what stands there now")
        first, last = found.start_line, found.end_line
    if not 1 <= first <= last <= len(lines_of(text)):
        raise Invalid(f"{field}.end_line", f"{ref.path} has no lines {first} to {last}", "Cite lines that a search returned")
    here = cite(ref.path, text, first, last)
    if len(here.quoted) > QUOTED_LENGTH:
        problem = f"these lines have {len(here.quoted):,} characters"
        raise Invalid(f"{field}.end_line", problem, f"Cite at most {QUOTED_LENGTH:,}")
    return DocumentRef(path=ref.path, start_line=first, end_line=last, content_hash=here.content_hash, quoted=here.quoted)


def _recorded(ref: Mapping[str, Any]) -> Citation:
    """A citation as it was recorded; one that came with a file from elsewhere may lack its words."""
    return Citation(ref["path"], ref["start_line"], ref["end_line"], ref.get("content_hash") or "", ref.get("quoted") or "")


def _shown_in_brief(documents: Sequence[BriefDocuments], lines: Mapping[str, int] | None) -> Iterator[tuple[Role, Citation]]:
    """What of the documents stood in the brief; of a rule that was cut, the lines that were shown."""
    for each in documents:
        for rule in each.rules:
            if lines is None or rule.id in lines:
                yield "rule", _shown_part(rule, None if lines is None else lines[rule.id] - 1)
        for passage in each.documents:
            if lines is None or passage.id in lines:
                yield (
                    "document",
                    Citation(passage.path, passage.start_line, passage.end_line, passage.content_hash, passage.quoted),
                )


def _shown_part(rule: PinnedRule, shown: int | None) -> Citation:
    """The beginning of a rule, up to so many lines with words; all of it for None.

    >>> from memtape.core.brief.inputs import PinnedRule
    >>> rule = PinnedRule("r", "RULES.md", "one\\n\\ntwo\\nthree", "RULES.md", 1, 4, "")
    >>> _shown_part(rule, 2).quoted, _shown_part(rule, 2).end_line
    ('one\\n\\ntwo', 3)
    """
    lines = lines_of(rule.text)[: rule.end_line - rule.start_line + 1]
    last, left = 0, len(lines) if shown is None else shown
    for number, line in enumerate(lines, 1):
        if line.strip() and left > 0:
            last, left = number, left - 1
    words = "\n".join(lines[:last])
    whole = last == len(lines)
    end = rule.end_line if whole else rule.start_line + max(last, 1) - 1
    return Citation(rule.path, rule.start_line, end, rule.content_hash if whole else content_hash(words), words)
