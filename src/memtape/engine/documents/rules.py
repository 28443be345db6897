"""What a brief takes from documents: pinned rules that are always in context, and passages that bear on the decision.

A brief at the present reads the pinned files as they are, so that a rule holds from the moment it is saved. A pinned rule that
is missing, empty, unreadable or shorter than it was (`rules_seen`) is named in the brief itself, with the time when it was last
there. What was shown is recorded whole (`BriefDocuments`), and a past brief is made of that: files change, and the log does not
know how they were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memtape.core.brief.inputs import BriefDocuments, Passage, PinnedRule, RuleProblem
from memtape.core.brief.sections.rules import problem_text
from memtape.core.codec import make_id, plain
from memtape.core.items import Item
from memtape.core.value_class import dataclass
from memtape.core.values import read
from memtape.documents.citations import Citation, cite, content_hash, lines_of, quoted_lines
from memtape.documents.pinned_rules import find_rule_files, is_relevant, is_rule_file, may_be_pinned, section_lines
from memtape.documents.question import parse_question
from memtape.documents.snippets import snippet
from memtape.documents.sources import FileEntry, classify_path, folder_problem, walk
from memtape.engine.documents.reader import DocumentReader
from memtape.engine.documents.rules_seen import Place, SeenRule, rules_seen, sizes_to_record, text_size
from memtape.engine.write.log_writer import Receipt
from memtape.errors import Invalid, MemtapeError, Unknown
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.core.brief.inputs import RuleState
    from memtape.core.items import StoredItem
    from memtape.core.observed import DocumentRef
    from memtape.documents.pin_suggestions import PinSuggestion
    from memtape.documents.search import SearchHit
    from memtape.documents.sources import DocumentFolder
    from memtape.engine.scope import AgentScope
    from memtape.engine.view.view import View
    from memtape.store.tables import Tables

MAX_PASSAGES = 3  # passages in a brief, each of another document
SEARCHED_HITS = 15  # hits among which they are looked for
MAX_RULE_CHARS = 64_000  # about what the largest brief has room for
DocumentsAndProblems = tuple[BriefDocuments, tuple[str, ...]]  # what documents say to a brief, and what is wrong with them


@dataclass(frozen=True, slots=True)
class PinnedDocument:
    """A document or section that is always in context."""

    path: str
    section: str | None
    by: str  # owner, or default: a rules file of the workspace
    rule: PinnedRule | None  # None where there is nothing to show
    missing: RuleProblem | None = None  # what of it is not there, or not whole

    @property
    def problem(self) -> str:
        """What is missing; empty where it is all there."""
        return problem_text(self.missing) if self.missing else ""


class PinnedRules:
    """The documents that are always in one agent's context."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope = scope

    def pin(self, path: str, section: str | None = None) -> Receipt:
        """Keep a document, or the part under one of its headings, always in context, as it is now. Owner only.

        A document that has become shorter since it was last seen is confirmed by this.
        """
        with self._scope.reading() as tables:
            found = DocumentReader(self._scope.resources, tables).file_text(path)
        if found is None:
            raise Unknown("path", "document", path, "Name a file of the workspace, or of a shared folder")
        if not may_be_pinned(found[1]):
            raise Invalid("path", f"{path} may be written by the agent", "Pin a manual, rules, a strategy or a playbook")
        rule = _rule(path, section, found[0])
        if rule is None:
            if section is None:
                raise Invalid("path", f"{path} is empty", "Write the rules into it first")
            raise Unknown("section", f"section of {path}", section, "Name one of its headings")
        receipt = self._state(path, section, True)
        self._record_seen([((path, section), rule.text)], confirmed=True)
        return receipt

    def unpin(self, path: str, section: str | None = None) -> Receipt:
        """Remove a pin; a rules file that is pinned by default stays out of briefs from now on. Owner only."""
        with self._scope.reading() as tables:
            reader = DocumentReader(self._scope.resources, tables)
            known = (path, section) in reader.stated_pins or any(
                (pin.path, pin.section) == (path, section) for pin in pinned_documents(reader, _seen_now(tables))
            )
        if not known:
            what = path if section is None else f"{path} › {section}"
            raise Unknown("path", "pinned document", what, "List them with list_pinned")
        return self._state(path, section, False)

    def _state(self, path: str, section: str | None, pinned: bool) -> Receipt:
        with self._scope.writing() as tables:
            name, body = make_id("pin", path, section), {"path": path, "section": section, "pinned": pinned}
            earlier = sorted(tables.items("pin", EVERYTHING, symbol=name), key=lambda item: item.seq)
            if earlier and earlier[-1].body == body and (row := tables.logged("pin", earlier[-1].key)) is not None:
                return Receipt(row.stream, row.seq, row.hash, (), duplicate=True)
            at = self._scope.stated_at(tables)
            return self._scope.writer(tables).declare(Item("pin", f"{name}#{len(earlier) + 1}", at, body, name), at)

    def pinned(self) -> tuple[PinnedDocument, ...]:
        """What is always in context, in the order of the brief: what the owner pinned, then the rules files."""
        with self._scope.reading() as tables:
            return pinned_documents(DocumentReader(self._scope.resources, tables), _seen_now(tables))

    def suggestions(self) -> list[PinSuggestion]:
        """The files and sections of the agent's folders that look like rules and are not pinned; the owner decides."""
        from memtape.documents.pin_suggestions import likely_rules

        with self._scope.reading() as tables:
            reader = DocumentReader(self._scope.resources, tables)
            pins = pinned_documents(reader, _seen_now(tables))
            folders = [folder for folder in reader.own_folders if not folder_problem(folder.root)]
            stated = {path for path, section in reader.stated_pins if section is None}
        whole = {pin.path for pin in pins if pin.section is None} | stated
        parts = {(pin.path, pin.section) for pin in pins}
        entries = [
            entry for folder in folders for entry in walk(folder)
            if isinstance(entry, FileEntry) and entry.path not in whole and may_be_pinned(entry.path.removeprefix(folder.prefix))
        ]  # fmt: skip
        return [each for each in likely_rules(entries) if (each.path, each.section) not in parts]

    def confirm(self, path: str) -> None:
        """Record that the rules of a document are as the owner wants them, also if they have become shorter."""
        found = [((pin.path, pin.section), pin.rule.text) for pin in self.pinned() if pin.path == path and pin.rule]
        self._record_seen(found, confirmed=True)

    def record_seen(self) -> None:
        """Record how the pinned rules are now, those that are new or not smaller than before: a sync does this."""
        whole = [((pin.path, pin.section), pin.rule.text) for pin in self.pinned() if pin.rule and not pin.missing]
        self._record_seen(whole)

    def _record_seen(self, texts: Sequence[tuple[Place, str]], *, confirmed: bool = False) -> None:
        with self._scope.reading() as tables:
            # Nearly always there is nothing to record, and reading waits for nobody.
            if not sizes_to_record(tables.items("rules_seen", EVERYTHING), texts, confirmed=confirmed):
                return
        with self._scope.writing() as tables:
            at = self._scope.stated_at(tables)
            for item in sizes_to_record(tables.items("rules_seen", EVERYTHING), texts, confirmed=confirmed):
                self._scope.writer(tables).declare(replace(item, at=at), at)


def _seen_now(tables: Tables) -> dict[Place, SeenRule]:
    def items(kind: str, **asked: Any) -> list[StoredItem]:
        return tables.items(kind, EVERYTHING, **asked)

    return rules_seen(items)


def pinned_documents(reader: DocumentReader, seen: Mapping[Place, SeenRule]) -> tuple[PinnedDocument, ...]:
    """What is always in context, in the order of the brief: what the owner pinned, then the rules files.

    A rules file that was `seen` and is not there any more is among them, with its problem.
    """
    stated = reader.stated_pins
    named = {path for (path, section), pinned in stated.items() if pinned or section is None}
    found = [_pinned(reader, path, section, "owner", seen) for (path, section), pinned in stated.items() if pinned]
    for folder in reader.own_folders:
        known = [path for path, section in seen if section is None and _is_default(folder, path)]
        if problem := folder_problem(folder.root):
            reason = f"the folder {folder.root.name} {problem}"
            for path in known or [f"{folder.root.name}/"]:
                if path not in named:
                    missing = _problem((path, None), seen, "missing", reason)
                    found.append(PinnedDocument(path, None, "default", None, missing))
            continue
        here = [f"{folder.prefix}{path}" for path in find_rule_files(folder.root)]
        there = {path.casefold() for path in here}
        here += [path for path in known if path.casefold() not in there]
        found += [_pinned(reader, path, None, "default", seen) for path in here if path not in named]
    return tuple(found)


def _is_default(folder: DocumentFolder, path: str) -> bool:
    return path.startswith(folder.prefix) and is_rule_file(path.removeprefix(folder.prefix))


def _pinned(
    reader: DocumentReader, path: str, heading: str | None, by: str, seen: Mapping[Place, SeenRule]
) -> PinnedDocument:
    place = (path, heading)
    if (found := reader.file_text(path)) is None:
        return PinnedDocument(path, heading, by, None, _problem(place, seen, *reader.why_unreadable(path)))
    rule = _rule(path, heading, found[0])
    if rule is None:
        # A file without a word has no headings either: it is empty, whatever was pinned of it.
        blank = not found[0].strip()
        there = blank or heading is None or section_lines(found[0], heading) is not None
        reason = "no such heading" if not there else "the file is empty" if blank else "nothing stands there"
        return PinnedDocument(path, heading, by, None, _problem(place, seen, "empty" if there else "missing", reason))
    lines, signs = text_size(rule.text)
    if (before := seen.get(place)) is None or before.is_whole_in(lines, signs):
        return PinnedDocument(path, heading, by, rule)
    lost = f"of {before.lines:,} lines {lines:,} are left" if lines < before.lines else f"{before.signs - signs:,} signs are gone"
    return PinnedDocument(path, heading, by, rule, _problem(place, seen, "shortened", lost))


def _problem(place: Place, seen: Mapping[Place, SeenRule], state: RuleState, reason: str) -> RuleProblem:
    before = seen.get(place)
    size = (before.at, before.lines, before.signs) if before else (None, 0, 0)
    return RuleProblem(*place, state, reason, *size)


# ---- for a brief at the present ------------------------------------------------------------------------------------------


def documents_now(
    reader: DocumentReader, seen: Mapping[Place, SeenRule], question: str, symbol: str | None, *, passages: bool, simulated: bool
) -> DocumentsAndProblems:
    """What the documents say to a brief at the present, and what is wrong with those that should say something."""
    rules, missing = _rules_now(reader, seen)
    # A file does not say since when it was true: in a simulation a passage could know what came later.
    if not passages or simulated:
        return BriefDocuments(rules, (), missing), ()
    try:
        found = passages_about(reader, question, symbol, {rule.path for rule in rules})
    except MemtapeError as error:
        # The index is a cache: without it a brief has no passages, and says so.
        return BriefDocuments(rules, (), missing), (f"No document is cited: {error}",)
    return BriefDocuments(rules, found, missing), ()


def documents_of_receipt(
    reader: DocumentReader, seen: Mapping[Place, SeenRule], question: str, refs: Iterable[DocumentRef]
) -> DocumentsAndProblems:
    """The rules of now with the passages of a receipt; passages that no longer say what they said are left out."""
    rules, missing = _rules_now(reader, seen)
    found = (_passage(reader, question, ref.path, ref.start_line, ref.end_line, ref.content_hash or "") for ref in refs)
    return BriefDocuments(rules, tuple(passage for passage in found if passage is not None), missing), ()


def _rules_now(
    reader: DocumentReader, seen: Mapping[Place, SeenRule]
) -> tuple[tuple[PinnedRule, ...], tuple[RuleProblem, ...]]:
    pins = pinned_documents(reader, seen)
    return tuple(pin.rule for pin in pins if pin.rule), tuple(pin.missing for pin in pins if pin.missing)


def passages_about(reader: DocumentReader, question: str, symbol: str | None, shown: Collection[str] = ()) -> tuple[Passage, ...]:
    """The passages that bear on a question, one of each document, as they stand now.

    The search is by words alone, so that no brief waits for a model.
    """
    resources = reader.resources
    if not resources.has_documents:
        return ()
    # Most of what a brief imports would be the search.
    from memtape.documents.search import search_index

    found = search_index(resources.documents, question, owner=resources.owner, agent=reader.agent, limit=SEARCHED_HITS)
    return tuple(_bearing(reader, found.hits, question, symbol, set(shown)))


def _bearing(
    reader: DocumentReader, hits: Iterable[SearchHit], question: str, symbol: str | None, shown: set[str]
) -> Iterator[Passage]:
    left = MAX_PASSAGES
    for hit in hits:
        if hit.path in shown or hit.path.startswith("@"):
            continue
        passage = _passage(reader, question, hit.path, hit.start_line, hit.end_line, hit.content_hash, tier=hit.tier)
        if passage is not None and is_relevant(passage.quoted, question, symbol):
            shown.add(hit.path)
            left -= 1
            yield passage
        if not left:
            return


def _passage(
    reader: DocumentReader, question: str, path: str, first: int, last: int, hash: str, tier: int | None = None
) -> Passage | None:
    """Lines of a document, if they still say what they said."""
    text = reader.text(path)
    if text is None or reader.check(Citation(path, first, last, hash, "")).verdict != "valid":
        return None
    words = cite(path, text, first, last).quoted
    return Passage(
        make_id("cited", path, first, last, hash), path, first, last, snippet(words, parse_question(question)),
        _tier(reader, path) if tier is None else tier, hash, words,
    )  # fmt: skip


def _tier(reader: DocumentReader, path: str) -> int:
    shelf = next(iter(reader.listing(path=path)), None)
    return shelf.latest[0].tier if shelf else classify_path(path)[1]


# ---- for a brief of the past ---------------------------------------------------------------------------------------------


def documents_known(view: View) -> DocumentsAndProblems:
    """The rules that were last shown by the view's moment. Which passages would have been found then is not on record."""
    last = view.items("shown", newest=True, limit=1)
    recorded = (_recorded_with(view.tables, last[0].body) if last else None) or BriefDocuments()
    unknown = not (recorded.rules or recorded.missing) and bool(view.tables.items("workspace", EVERYTHING, limit=1))
    known = BriefDocuments(recorded.rules, (), recorded.missing)
    return known, (("No rules are on record as of then: none had been shown",) if unknown else ())


def documents_digest(documents: BriefDocuments) -> str | None:
    """The key under which documents are recorded; None where there are none."""
    return make_id("papers", plain(documents)) if documents else None


def recorded_documents(tables: Tables, digest: str) -> BriefDocuments | None:
    """What a brief took from documents, as it was recorded when the brief was shown."""
    found = tables.items("papers", EVERYTHING, keys=[digest])
    return read(BriefDocuments, found[0].body) if found else None


def _recorded_with(tables: Tables, shown: dict[str, object]) -> BriefDocuments | None:
    return recorded_documents(tables, str(shown["papers"])) if shown.get("papers") else None


def _rule(path: str, heading: str | None, text: str) -> PinnedRule | None:
    """The rule that a document gives: all of it or a section, and of a very long one its beginning; None if it is empty."""
    lines = (1, len(lines_of(text))) if heading is None else section_lines(text, heading)
    if lines is None or not (words := quoted_lines(text, *lines)).strip():
        return None
    first, last = lines
    shown = words
    if len(words) > MAX_RULE_CHARS:
        end = words.rfind("\n", 0, MAX_RULE_CHARS) if "\n" in words[:MAX_RULE_CHARS] else MAX_RULE_CHARS
        cut = lines_of(words[:end])
        more = last - first + 1 - len(cut)
        words, last = "\n".join(cut), first + len(cut) - 1
        shown = f"{words}\n(it goes on for {more:,} lines more)"
    title = path if heading is None else f"{path} › {heading}"
    return PinnedRule(make_id("rule", path, heading, words), title, shown, path, first, last, content_hash(words))
