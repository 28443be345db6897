"""How the pinned rules were when they were last there whole: so that a rules file which vanishes or shrinks does not go unsaid.

Files are the authority on what a rule says, and they can be deleted, emptied and cut by anybody who has the folder. So the log
keeps, for each pinned document and section, how many lines and signs it had: whenever a sync sees a new one or one that has
grown, and whenever the owner pins it. What is smaller than that is reported until the owner pins it again as it is, or unpins it.
The rules of the brief that was shown last count too.

A text has shrunk if it has fewer lines and fewer signs, or more than a tenth fewer signs. A changed number or word is the owner's
edit, and holds at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from memtape.core.brief.inputs import BriefDocuments
from memtape.core.codec import EPOCH, make_id
from memtape.core.items import Item
from memtape.core.value_class import dataclass
from memtape.core.values import read
from memtape.documents.citations import lines_of

if TYPE_CHECKING:
    from memtape.core.items import StoredItem

SHRUNK_BELOW = 0.9  # of the signs that a text had
Place = tuple[str, str | None]  # a document and, where only a section is pinned, its heading


class ItemReader(Protocol):
    """Reads the items of an agent's log, up to a cutoff or all."""

    def __call__(
        self, kind: str, *, keys: Sequence[str] | None = None, limit: int | None = None, newest: bool = False
    ) -> list[StoredItem]: ...


@dataclass(frozen=True, slots=True)
class SeenRule:
    """A rule as it was: when it was last seen so, its lines with words, and its signs without spaces."""

    at: datetime
    lines: int
    signs: int
    seq: int = 0

    def is_whole_in(self, lines: int, signs: int) -> bool:
        """Returns True if a text of this size has not shrunk.

        >>> from datetime import UTC
        >>> seen = SeenRule(datetime(2026, 5, 4, tzinfo=UTC), 10, 400)
        >>> [seen.is_whole_in(*size) for size in ((10, 400), (12, 395), (9, 402), (10, 395), (9, 395), (10, 300))]
        [True, True, True, True, False, False]
        """
        return not ((lines < self.lines and signs < self.signs) or signs < SHRUNK_BELOW * self.signs)


def text_size(text: str) -> tuple[int, int]:
    """Returns how many lines with words a text has, and how many signs without spaces."""
    lines = [line for line in lines_of(text) if line.strip()]
    return len(lines), sum(len("".join(line.split())) for line in lines)


def rules_seen(items: ItemReader, recorded: Sequence[StoredItem] | None = None) -> dict[Place, SeenRule]:
    """Returns how each pinned document and section was when it was last there whole.

    `recorded` are the items of kind `rules_seen`, if they were read already.
    """
    seen: dict[Place, SeenRule] = {}
    for item in sorted(items("rules_seen") if recorded is None else recorded, key=lambda item: item.seq):
        place = str(item.body["path"]), item.body["section"]
        seen[place] = SeenRule(item.known_at, int(item.body["lines"]), int(item.body["signs"]), item.seq)
    for shown in items("shown", newest=True, limit=1):
        documents = items("papers", keys=[str(shown.body["papers"])]) if shown.body.get("papers") else []
        for each in documents:
            _add_shown(seen, read(BriefDocuments, each.body), shown)
    return seen


def _add_shown(seen: dict[Place, SeenRule], documents: BriefDocuments, shown: StoredItem) -> None:
    """Adds the rules of the brief that was shown last. One in which a rule was missing knows when that was last there."""
    problems: Mapping[Place, object] = {(each.path, each.section): each for each in documents.missing}
    for rule in documents.rules:
        place = rule.path, rule.title.removeprefix(f"{rule.path} › ") if rule.title != rule.path else None
        size, before = text_size(rule.text), seen.get(place)
        # What the owner confirmed since then counts, and what was shown with a part missing does not.
        if place in problems or (before is not None and (before.seq > shown.seq or not before.is_whole_in(*size))):
            continue
        seen[place] = SeenRule(shown.known_at, *size, shown.seq)
    for problem in documents.missing:
        if problem.last_seen is not None:
            size = problem.lines_before, problem.signs_before
            seen.setdefault((problem.path, problem.section), SeenRule(problem.last_seen, *size, shown.seq))


def sizes_to_record(
    recorded: Iterable[StoredItem], texts: Iterable[tuple[Place, str]], *, confirmed: bool = False
) -> list[Item]:
    """Returns the items that say how these rules are now: of those that are new or not smaller, with `confirmed` of all."""
    earlier: dict[Place, list[StoredItem]] = {}
    for item in sorted(recorded, key=lambda item: item.seq):
        earlier.setdefault((str(item.body["path"]), item.body["section"]), []).append(item)
    items: list[Item] = []
    for (path, section), text in texts:
        before, size = earlier.get((path, section), []), text_size(text)
        if before:
            last = SeenRule(before[-1].known_at, int(before[-1].body["lines"]), int(before[-1].body["signs"]))
            if (last.lines, last.signs) == size or not (confirmed or last.is_whole_in(*size)):
                continue
        body = {"path": path, "section": section, "lines": size[0], "signs": size[1]}
        name = make_id("rules_seen", path, section)
        items.append(Item("rules_seen", f"{name}#{len(before) + 1}", EPOCH, body, name))
    return items
