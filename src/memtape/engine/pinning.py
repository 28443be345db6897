"""What a brief takes from documents: rules that are always in context, and passages that bear on the decision.

A brief at the present reads the pinned files as they are, so that a rule holds from the moment it is saved. What was shown is
recorded whole (`Papers`), and a brief of the past is made of that: files change, and the log does not know how they were.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memtape.core.brief import Cited, Papers, Rule
from memtape.core.codec import identify, plain, read_time
from memtape.core.items import Item
from memtape.core.values import read
from memtape.documents.citations import cite, content_hash, lines_of, quoted
from memtape.documents.pins import bears_on, may_be_pinned, rules_in, section, text_in
from memtape.documents.search import search
from memtape.documents.sources import Source
from memtape.engine.documents import Documents
from memtape.engine.observe import Receipt, Writer
from memtape.errors import Invalid, Unknown
from memtape.store.known import EVERYTHING, Known
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.engine.memory import Memory

PASSAGES, SOUGHT = 3, 15  # documents in a brief, and among how many hits they are looked for
Place = tuple[str, str | None]  # a document and, where only that is pinned, the heading of a section


@dataclass(frozen=True, slots=True)
class Pin:
    """A document or section that is always in context, and how it stands."""

    path: str
    section: str | None
    by: str  # owner, or default: a rules file of the workspace
    rule: Rule | None  # none where there is nothing to show
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
            name, body = identify("pin", path, section), {"path": path, "section": section, "pinned": pinned}
            said = sorted(tables.items("pin", EVERYTHING, symbol=name), key=lambda item: item.seq)
            if said and said[-1].body == body and (row := tables.logged("pin", said[-1].key)) is not None:
                return Receipt(row.stream, row.seq, row.hash, (), duplicate=True)
            at = self._said_at(tables)
            writer = Writer(tables, self.agent, self.memory.clock.now())
            return writer.declare(Item("pin", f"{name}#{len(said) + 1}", at, body, name), at)

    def pinned(self) -> tuple[Pin, ...]:
        """What is always in context, in the order in which it is told: what the owner pinned, then the rules files."""
        with self.memory.reading(self.agent.id) as tables:
            stated = _stated(tables)
        places = self._places()
        own = [(place, "owner") for place, pinned in stated.items() if pinned]
        named = {path for (path, section), pinned in stated.items() if pinned or section is None}
        there = [source for source in self.workspaces() if source.root.is_dir()]
        rules = [f"{source.prefix}{path}" for source in there for path in rules_in(source.root)]
        files = [((path, None), "default") for path in rules if path not in named]
        return tuple(self._pin(place, by, places) for place, by in (*own, *files))

    def _pin(self, place: Place, by: str, places: list[Source]) -> Pin:
        path, heading = place
        found = _found(path, places)
        if found is None:
            return Pin(path, heading, by, None, f"{path} is not there")
        rule = _rule(path, heading, found[0])
        problem = "" if rule else f"{path} has nothing under '{heading}'" if heading else f"{path} is empty"
        return Pin(path, heading, by, rule, problem)

    def _places(self) -> list[Source]:
        return [*self.workspaces(), *self.workspaces(shared=True)]

    def _paper(self, path: str) -> tuple[str, str] | None:
        return _found(path, self._places())

    # ---- for a brief ---------------------------------------------------------------------------------------------------

    def papers_now(self, question: str, symbol: str | None, *, passages: bool) -> tuple[Papers, tuple[str, ...]]:
        """What the documents have to say to a brief at the present, and what is wrong with pinned ones."""
        pins = self.pinned()
        rules = tuple(pin.rule for pin in pins if pin.rule is not None)
        told = {rule.path for rule in rules}
        found = self.passages_on(question, symbol, told) if passages else ()
        return Papers(rules, found), tuple(f"Pinned, but {pin.problem}" for pin in pins if pin.problem)

    def passages_on(self, question: str, symbol: str | None, told: Collection[str] = ()) -> tuple[Cited, ...]:
        """The passages that bear on a question, one of each document, as they stand now; none in a simulation.

        In a simulation they could know what came later: a file does not say when it was first true. The search is by words alone,
        so that no brief waits for a model.
        """
        if self.agent.mode == "sim" or not self.memory.has_documents:
            return ()
        owner, agent = self.memory.owner, self.agent.id
        chosen: list[Cited] = []
        seen = set(told)
        for hit in search(self.memory.documents, question, owner=owner, agent=agent, limit=SOUGHT).hits:
            if hit.path in seen or hit.path.startswith("@") or (text := self._text(hit.path)) is None:
                continue
            if hit.end_line > len(lines_of(text)):
                continue
            here = cite(hit.path, text, hit.start_line, hit.end_line)
            if here.content_hash != hit.content_hash or not bears_on(here.quoted, question, symbol):
                continue  # what was indexed no longer stands there
            seen.add(hit.path)
            id = identify("cited", hit.path, hit.start_line, hit.end_line, hit.content_hash)
            chosen.append(Cited(id, hit.path, hit.start_line, hit.end_line, hit.snippet, hit.tier, hit.content_hash, here.quoted))
            if len(chosen) == PASSAGES:
                break
        return tuple(chosen)

    def papers_shown(self, digest: str) -> Papers | None:
        """What a brief took from documents, as it was recorded when the brief was shown."""
        with self.memory.reading(self.agent.id) as tables:
            found = tables.items("papers", EVERYTHING, keys=[digest])
        return read(Papers, found[0].body) if found else None

    def rules_known(self, at: datetime) -> Papers:
        """The rules that were last shown by a moment; of passages nothing, for which would have been found is not on record."""
        with self.memory.reading(self.agent.id) as tables:
            for item in tables.items("shown", Known(at), newest=True):
                if item.body.get("papers") and read_time(item.body["as_of"]) <= at:
                    known = tables.items("papers", EVERYTHING, keys=[item.body["papers"]])
                    return Papers(read(Papers, known[0].body).rules) if known else Papers()
        return Papers()


def papers_digest(papers: Papers) -> str | None:
    """What names them; none where there is nothing."""
    return identify("papers", plain(papers)) if papers else None


def _stated(tables: Tables) -> dict[Place, bool]:
    """What was pinned and taken back, in the order in which each was last stated."""
    stated: dict[Place, bool] = {}
    for item in sorted(tables.items("pin", EVERYTHING), key=lambda item: item.seq):
        place = (str(item.body["path"]), item.body["section"])
        stated.pop(place, None)
        stated[place] = bool(item.body["pinned"])
    return stated


def _found(path: str, places: list[Source]) -> tuple[str, str] | None:
    """The text of a document, and its path within its folder."""
    for source in places:
        if path.startswith(source.prefix):
            within = path.removeprefix(source.prefix)
            if (text := text_in(Path(source.root), within)) is not None:
                return text, within
    return None


def _rule(path: str, heading: str | None, text: str) -> Rule | None:
    lines = (1, len(lines_of(text))) if heading is None else section(text, heading)
    if lines is None or not (words := quoted(text, *lines)).strip():
        return None
    title = path if heading is None else f"{path} › {heading}"
    return Rule(identify("rule", path, heading, words), title, words, path, *lines, content_hash(words))


