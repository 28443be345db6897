"""What a brief takes from documents: rules that are always in context, and passages that bear on the decision.

A brief at the present reads the pinned files as they are, so that a rule holds from the moment it is saved. A rule that cannot be
told, or that was told last time and is gone, is named in the brief's warnings. What was shown is recorded whole (`Papers`), and a
brief of the past is made of that: files change, and the log does not know how they were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memtape.core.brief.inputs import BriefDocuments, Passage, PinnedRule
from memtape.core.codec import make_id, plain
from memtape.core.items import Item
from memtape.core.observed import DocumentRef
from memtape.core.values import read
from memtape.documents.citations import Citation, check_citation, cite, content_hash, lines_of, quoted_lines
from memtape.documents.pinned_rules import bears_on, may_be_pinned, rules_in, section_lines
from memtape.documents.question import parse_question
from memtape.documents.search import Hit, search_index
from memtape.documents.snippets import snippet
from memtape.documents.sources import classified, is_there
from memtape.engine.documents.workspace import Documents
from memtape.engine.write.writer import Receipt, Writer
from memtape.errors import Invalid, MemtapeError, Unknown
from memtape.store.cutoff import EVERYTHING, Cutoff
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.engine.memory import Memory

PASSAGES, SOUGHT = 3, 15  # documents in a brief, and among how many hits they are looked for
RULE_LENGTH = 20_000  # characters of one rule, far more than a brief has room for
Place = tuple[str, str | None]  # a document and, where only that is pinned, the heading of a section
Told = tuple[BriefDocuments, tuple[str, ...]]  # what documents say to a brief, and what is wrong with those that should


@dataclass(frozen=True, slots=True)
class PinnedDocument:
    """A document or section that is always in context, and how it stands."""

    path: str
    section: str | None
    by: str  # owner, or default: a rules file of the workspace
    rule: PinnedRule | None  # none where there is nothing to show
    problem: str = ""


class Pinning(Documents):
    """The rules and passages that one agent is told."""

    memory: Memory

    def pin_document(self, path: str, section: str | None = None) -> Receipt:
        """Let a document, or what stands under one of its headings, be always in context."""
        if (found := self._paper(path)) is None:
            raise Unknown("path", "document", path, "Name a file of the workspace, or of a shared folder")
        if not may_be_pinned(found[1]):
            raise Invalid("path", f"{path} is not the owner's alone", "Pin a manual, rules, a strategy or a playbook")
        if section is not None and _rule(path, section, found[0]) is None:
            raise Unknown("section", f"section of {path}", section, "Name one of its headings")
        return self._say_pinned(path, section, True)

    def unpin_document(self, path: str, section: str | None = None) -> Receipt:
        """Take a pin back; a rules file that is pinned by itself stays out of briefs from now on."""
        with self.memory.reading(self.agent.id) as tables:
            stated = _stated(tables)
        if (path, section) not in stated and not any((pin.path, pin.section) == (path, section) for pin in self.pinned()):
            what = path if section is None else f"{path} › {section}"
            raise Unknown("path", "pinned document", what, "List them with list_pinned")
        return self._say_pinned(path, section, False)

    def _say_pinned(self, path: str, section: str | None, pinned: bool) -> Receipt:
        with self.memory.writing(self.agent.id) as tables:
            name, body = make_id("pin", path, section), {"path": path, "section": section, "pinned": pinned}
            said = sorted(tables.items("pin", EVERYTHING, symbol=name), key=lambda item: item.seq)
            if said and said[-1].body == body and (row := tables.logged("pin", said[-1].key)) is not None:
                return Receipt(row.stream, row.seq, row.hash, (), duplicate=True)
            at = self._said_at(tables)
            writer = Writer(tables, self.agent, self.memory.clock.now())
            return writer.declare(Item("pin", f"{name}#{len(said) + 1}", at, body, name), at)

    def pinned(self) -> tuple[PinnedDocument, ...]:
        """What is always in context, in the order in which it is told: what the owner pinned, then the rules files."""
        with self.memory.reading(self.agent.id) as tables:
            stated = _stated(tables)
        named = {path for (path, section), pinned in stated.items() if pinned or section is None}
        found = [self._pin(path, section, "owner") for (path, section), pinned in stated.items() if pinned]
        for source in self.workspaces():
            if not is_there(source.root):
                problem = f"the folder {source.root} is not there: nor are its rules"
                found.append(PinnedDocument(str(source.root), None, "default", None, problem))
                continue
            rules = (f"{source.prefix}{path}" for path in rules_in(source.root))
            found += [self._pin(path, None, "default") for path in rules if path not in named]
        return tuple(found)

    def _pin(self, path: str, heading: str | None, by: str) -> PinnedDocument:
        if (found := self._paper(path)) is None:
            return PinnedDocument(path, heading, by, None, f"{path} is not there, or cannot be read as text")
        rule = _rule(path, heading, found[0])
        problem = "" if rule else f"{path} has nothing under '{heading}'" if heading else f"{path} is empty"
        return PinnedDocument(path, heading, by, rule, problem)

    # ---- for a brief at the present ------------------------------------------------------------------------------------

    def papers_now(self, question: str, symbol: str | None, *, passages: bool) -> Told:
        """What the documents have to say to a brief at the present, and what is wrong with those that should say something."""
        rules, problems = self._rules_now()
        if not passages:
            return BriefDocuments(rules), problems
        try:
            found = self.passages_on(question, symbol, {rule.path for rule in rules})
        except MemtapeError as error:  # the index is a cache: without it a brief has no passages, and says so
            return BriefDocuments(rules), (*problems, f"No document is cited: {error}")
        return BriefDocuments(rules, found), problems

    def papers_of(self, question: str, cited: Iterable[DocumentRef]) -> Told:
        """The same with the passages of a receipt, where they still say what they said; those that do not are left out."""
        rules, problems = self._rules_now()
        found = (self._cited(question, each.path, each.start_line, each.end_line, each.content_hash or "") for each in cited)
        return BriefDocuments(rules, tuple(one for one in found if one is not None)), problems

    def _rules_now(self) -> tuple[tuple[PinnedRule, ...], tuple[str, ...]]:
        pins = self.pinned()
        rules = tuple(pin.rule for pin in pins if pin.rule is not None)
        wrong = [f"Pinned, but {pin.problem}" for pin in pins if pin.problem]
        with self.memory.reading(self.agent.id) as tables:
            before, stated = _last_shown(tables, EVERYTHING), _stated(tables)
        here = {pin.path for pin in pins} | {path for path, _ in stated}
        gone = dict.fromkeys(rule.path for rule in before.rules if rule.path not in here)
        return rules, (*wrong, *(f"{path} was told in the brief before, and is not there now" for path in gone))

    def passages_on(self, question: str, symbol: str | None, told: Collection[str] = ()) -> tuple[Passage, ...]:
        """The passages that bear on a question, one of each document, as they stand now; none in a simulation.

        In a simulation they could know what came later: a file does not say when it was first true. The search is by words alone,
        so that no brief waits for a model.
        """
        if self.agent.mode == "sim" or not self.memory.has_documents:
            return ()
        found = search_index(self.memory.documents, question, owner=self.memory.owner, agent=self.agent.id, limit=SOUGHT)
        return tuple(self._bearing(found.hits, question, symbol, set(told)))

    def _bearing(self, hits: Iterable[Hit], question: str, symbol: str | None, seen: set[str]) -> Iterator[Passage]:
        left = PASSAGES
        for hit in hits:
            if hit.path in seen or hit.path.startswith("@"):
                continue
            one = self._cited(question, hit.path, hit.start_line, hit.end_line, hit.content_hash, tier=hit.tier)
            if one is not None and bears_on(one.quoted, question, symbol):
                seen.add(hit.path)
                left -= 1
                yield one
            if not left:
                return

    def _cited(self, question: str, path: str, first: int, last: int, hash: str, tier: int | None = None) -> Passage | None:
        """Lines of a document, if they say what they said."""
        text = self._text(path)
        if text is None or check_citation(Citation(path, first, last, hash, ""), text).verdict != "valid":
            return None
        words = cite(path, text, first, last).quoted
        return Passage(
            make_id("cited", path, first, last, hash), path, first, last, snippet(words, parse_question(question)),
            self._tier(path) if tier is None else tier, hash, words,
        )  # fmt: skip

    def _tier(self, path: str) -> int:
        """Whose words a document has."""
        shelf = next(iter(self.shelves(path=path)), None)
        return shelf.latest[0].tier if shelf else classified(path)[1]

    # ---- for a brief of the past ---------------------------------------------------------------------------------------

    def papers_shown(self, digest: str) -> BriefDocuments | None:
        """What a brief took from documents, as it was recorded when the brief was shown."""
        with self.memory.reading(self.agent.id) as tables:
            return _recorded(tables, digest)

    def rules_known(self, known: Cutoff) -> Told:
        """The rules that were last shown by then; of passages nothing, for which would have been found is not on record."""
        with self.memory.reading(self.agent.id) as tables:
            rules = _last_shown(tables, known).rules
        untold = not rules and bool(self.workspaces())
        return BriefDocuments(rules), (("No rules are on record as of then: none had been shown",) if untold else ())


def documents_digest(papers: BriefDocuments) -> str | None:
    """What names them; none where there is nothing."""
    return make_id("papers", plain(papers)) if papers else None


def _last_shown(tables: Tables, known: Cutoff) -> BriefDocuments:
    """What the brief that was shown last had taken from documents."""
    last = tables.items("shown", known, newest=True, limit=1)
    return (_recorded(tables, last[0].body["papers"]) if last and last[0].body.get("papers") else None) or BriefDocuments()


def _recorded(tables: Tables, digest: str) -> BriefDocuments | None:
    found = tables.items("papers", EVERYTHING, keys=[digest])
    return read(BriefDocuments, found[0].body) if found else None


def _stated(tables: Tables) -> dict[Place, bool]:
    """What was pinned and taken back, in the order in which each was last stated."""
    stated: dict[Place, bool] = {}
    for item in sorted(tables.items("pin", EVERYTHING), key=lambda item: item.seq):
        place = (str(item.body["path"]), item.body["section"])
        stated.pop(place, None)
        stated[place] = bool(item.body["pinned"])
    return stated


def _rule(path: str, heading: str | None, text: str) -> PinnedRule | None:
    """What is told of a document: all of it or a section, and of a very long one its beginning."""
    lines = (1, len(lines_of(text))) if heading is None else section_lines(text, heading)
    if lines is None or not (words := quoted_lines(text, *lines)).strip():
        return None
    first, last = lines
    if len(words) > RULE_LENGTH:
        kept = lines_of(words[: words.rfind("\n", 0, RULE_LENGTH) if "\n" in words[:RULE_LENGTH] else RULE_LENGTH])
        more = last - first + 1 - len(kept)
        words, last = "\n".join(kept), first + len(kept) - 1
        told = f"{words}\n(it goes on for {more:,} lines more)"
    else:
        told = words
    title = path if heading is None else f"{path} › {heading}"
    return PinnedRule(make_id("rule", path, heading, words), title, told, path, first, last, content_hash(words))
