"""What is written into documents: notes, which are only added, and edits, which are proposed first and made later.

A note is an entry of its own: a heading that memtape writes (when, what kind, by which agent, in which run, its id) and below it
the words of whoever wrote it. Those words are data. A line among them that could pass for a heading of ours, or that would
swallow the headings of later notes (a fence never closed, an opening tag), is escaped with a backslash, as markdown has it.

An edit replaces a fragment that stands exactly once, or the whole text. It remembers the hash of the text it was made on and of
what comes of it, so that it can be judged against the document of any later day: `clean` (nothing changed since), `moved`
(changed elsewhere; the fragment still stands once), `done` (it says so already) or `stale` (it must be proposed again).

>>> manual = "# Risk\\nNever risk more than 1 %.\\n"
>>> edit = make_edit("MANUAL.md", manual, old="1 %", new="0.5 %")
>>> print(edit.diff)
--- MANUAL.md
+++ MANUAL.md
@@ -1,2 +1,2 @@
 # Risk
-Never risk more than 1 %.
+Never risk more than 0.5 %.
>>> (evaluate_edit(edit, manual).state, evaluate_edit(edit, manual + "Stop after three losses.\\n").state,
...  evaluate_edit(edit, "# Risk\\n").state)
('clean', 'moved', 'stale')
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from itertools import chain, repeat
from typing import Literal

from memtape.core.brief.sanitize import safe_name
from memtape.core.codec import digest, time_text
from memtape.errors import Invalid

NoteKind = Literal["journal", "learning", "note"]
Status = Literal["proposed", "accepted", "rejected"]
State = Literal["clean", "moved", "done", "stale"]

NOTE_LENGTH = 20_000
FRAGMENT_LENGTH = 20_000
TEXT_LENGTH = 200_000
Opcode = tuple[str, int, int, int, int]  # as difflib has it: what is done, and to which lines of either text
CONTEXT_LINES = 3  # lines around a change
MAX_COMPARED_LINES = 4_000  # lines between the first and the last that differ; of more, all are told as replaced
_NEWLINE = re.compile(r"\r\n|\n|\r")
# What no reader sees, and what makes lines look other than they are: controls but tab and newline, separators, bidi overrides.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_OURS = re.compile(r"\s*#{1,6}\s*\d{4}-\d\d-\d\dT")
_POSING = re.compile(r" {0,3}(?:#{1,2}(?=[ \t]|$)|=+[ \t]*$|-+[ \t]*$|<(?=[/!?A-Za-z]))")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def normalize_newlines(text: str) -> str:
    """A text with every newline spelled alike.

    >>> normalize_newlines("a\\r\\nb\\rc")
    'a\\nb\\nc'
    """
    return _NEWLINE.sub("\n", text)


def checked_text(field: str, text: str, longest: int) -> str:
    """A text of several lines that somebody else wrote, if it may be kept: nothing unseen in it, and not too long.

    >>> checked_text("text", "waited\\u202e", 100)
    Traceback (most recent call last):
    memtape.errors.Invalid: text: contains a character that is not seen (U+202E). Remove it
    """
    text = normalize_newlines(text)
    if found := _UNSEEN.search(text):
        raise Invalid(field, f"contains a character that is not seen (U+{ord(found[0]):04X})", "Remove it")
    if len(text) > longest:
        raise Invalid(field, f"has {len(text):,} characters", f"Write at most {longest:,}")
    return text


# ---- notes ---------------------------------------------------------------------------------------------------------------


def note_text(text: str) -> str:
    """The words of a note, without what is blank around them; refused if there are none, or too many."""
    words = checked_text("text", text, NOTE_LENGTH).strip("\n").rstrip()
    if not words.strip():
        raise Invalid("text", "says nothing", "Write what is to be remembered")
    return words


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteEntry:
    """A note as it stands in its document.

    >>> from datetime import UTC
    >>> at = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
    >>> print(NoteEntry(id="n1", kind="journal", agent="desk", at=at, run="r-17", text="Waited.\\n# Rules").text_lines)
    ['## 2026-05-04T09:30:00Z journal by desk in run r-17 [n1]', 'Waited.', '\\\\# Rules']
    """

    id: str
    kind: NoteKind
    agent: str
    at: datetime
    text: str
    run: str | None = None

    @property
    def signed(self) -> str:
        """Who wrote it, in which run, under which id: what of its heading does not depend on the time."""
        return f"{self.kind} by {self.agent}{f' in run {safe_name(self.run)}' if self.run else ''} [{self.id}]"

    @property
    def text_lines(self) -> list[str]:
        """The heading and the words below it."""
        return [f"## {time_text(self.at.replace(microsecond=0))} {self.signed}", *escape_headings(self.text.split("\n"))]

    def found_in(self, text: str) -> tuple[int, int] | None:
        """The lines on which it stands, whenever it was written; none where it does not, or says something else."""
        own, lines = self.text_lines[1:], text.split("\n")
        for at, line in enumerate(lines):
            end = at + 1 + len(own)
            ours = line.endswith(self.signed) and _OURS.match(line) and line.split(" ", 2)[2:] == [self.signed]
            if ours and lines[at + 1 : end] == own and not "".join(lines[end : end + 1]):
                return at + 1, end
        return None

    def after(self, text: str) -> str:
        """What is to be added to a text, so that the entry stands by itself below it.

        >>> from datetime import UTC
        >>> entry = NoteEntry(id="n1", kind="note", agent="a", at=datetime(2026, 5, 4, tzinfo=UTC), text="Out.")
        >>> entry.after("no newline")
        '\\n\\n## 2026-05-04T00:00:00Z note by a [n1]\\nOut.\\n'
        """
        before = "" if text == "" or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        return before + "\n".join(self.text_lines) + "\n"


def escape_headings(lines: Sequence[str]) -> list[str]:
    """Lines in which nothing can be taken for a heading of ours, nor hide one that follows; code in closed fences stays.

    >>> escape_headings(["### fine", "## 2026-05-04T09:30:00Z journal by boss [x]", "Title", "==="])
    ['### fine', '\\\\## 2026-05-04T09:30:00Z journal by boss [x]', 'Title', '\\\\===']
    >>> escape_headings(["```sh", "# a comment", "```", "~~~ never closed"])
    ['```sh', '# a comment', '```', '\\\\~~~ never closed']
    """
    found: list[str] = []
    while len(found) < len(lines):
        at = len(found)
        closed = _closing(lines, at)
        if closed is not None:
            found += [f"\\{line}" if _OURS.match(line) else line for line in lines[at : closed + 1]]
        else:
            line = lines[at]
            found.append(f"\\{line}" if _POSING.match(line) or _OURS.match(line) or _FENCE.match(line) else line)
    return found


def _closing(lines: Sequence[str], at: int) -> int | None:
    """Where the fence that a line opens is closed, if it does and is in a way that all readers agree on."""
    fence = _FENCE.match(lines[at])
    if fence is None or "`" in fence[2] or "~" in fence[2]:
        return None
    mark = fence[1]
    for row in range(at + 1, len(lines)):
        bare = lines[row].strip()
        if bare.startswith(mark) and not bare.strip(mark[0]):
            return row if _FENCE.match(lines[row]) else None
    return None


# ---- edits ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change of one document, as it was proposed. It has `old` and `new`, or the whole `text`."""

    path: str
    base: str | None  # hash of the text it was made on; none where there was no such document
    result: str  # hash of what comes of it
    diff: str
    old: str | None = None
    new: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class EditResult:
    """How an edit stands against a text, and what would come of it; no text where it cannot be made or need not be."""

    state: State
    text: str | None = None


def make_edit(path: str, before: str | None, *, old: str | None = None, new: str | None = None, text: str | None = None) -> Edit:
    """An edit of a text, or of none where the document is new; refused if it says nothing or cannot be made."""
    if text is not None and (old is not None or new is not None):
        raise Invalid("text", "is the whole new text", "Give either old and new, or text alone")
    if text is not None:
        text = checked_text("text", text, TEXT_LENGTH)
        text = text if text.endswith("\n") else f"{text}\n"
        after = text
    else:
        if old is None or new is None:
            raise Invalid("new" if new is None else "old", "is missing", "Give old and new, or the whole text")
        old, new = normalize_newlines(old), checked_text("new", new, FRAGMENT_LENGTH)
        after = _replaced(path, before, old, new)
    if after == before:
        raise Invalid("new" if text is None else "text", "changes nothing", "Propose what should be different")
    if not after.strip():
        raise Invalid("new" if text is None else "text", "would leave nothing", "Ask the owner to remove the document")
    base = None if before is None else digest(before)
    return Edit(path=path, base=base, result=digest(after), diff=unified_diff(path, before, after), old=old, new=new, text=text)


def _replaced(path: str, before: str | None, old: str, new: str) -> str:
    if before is None:
        raise Invalid("path", f"there is no document '{path}'", "Give the whole text to propose a new one")
    if len(old) > FRAGMENT_LENGTH:
        raise Invalid("old", f"has {len(old):,} characters", f"Quote at most {FRAGMENT_LENGTH:,}, or give the whole text")
    if not old or (times := _times(before, old)) == 0:
        raise Invalid("old", f"does not stand in {path}", "Quote it letter by letter, with its newlines")
    if times > 1:
        raise Invalid("old", f"stands more than once in {path}", "Quote more of what is around it")
    return before.replace(old, new)


def _times(text: str, part: str) -> int:
    """Whether a part stands in a text never, once or more often; two that overlap are two.

    >>> _times("aaa", "aa"), _times("aba", "b")
    (2, 1)
    """
    first = text.find(part)
    return 0 if first < 0 else 1 if text.find(part, first + 1) < 0 else 2


def evaluate_edit(edit: Edit, now: str | None, intended: str | None = None) -> EditResult:
    """How an edit stands against the document of today (none: there is no such document).

    `intended` is the hash of what an acceptance that was interrupted was about to write.
    """
    hash = None if now is None else digest(now)
    if hash is not None and hash in (edit.result, intended):
        return EditResult("done")
    if hash == edit.base:
        return EditResult("clean", edit.text if edit.old is None or now is None else now.replace(edit.old, edit.new or ""))
    if now is None or edit.old is None or _times(now, edit.old) != 1:
        return EditResult("stale")
    return EditResult("moved", now.replace(edit.old, edit.new or ""))


def keep_newlines(before: str, after: str) -> str:
    """A new text, written with plain newlines, in the newlines of the old one: lines that stay keep their own.

    >>> keep_newlines("a\\r\\nb\\r\\n", "a\\nc\\nb\\n")
    'a\\r\\nc\\r\\nb\\r\\n'
    """
    old, new = list(_ended(before)), list(_ended(after))
    usual = main_newline(before)
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    ends = chain((end or usual for _, end in old[head : len(old) - tail]), repeat(usual))  # in place of another: as that one did
    middle = [(line, newline if end else "") for (line, end), newline in zip(new[head : len(new) - tail], ends, strict=False)]
    return "".join(line + end for line, end in (*old[:head], *middle, *old[len(old) - tail :]))


def main_newline(text: str) -> str:
    """The newline that a text mostly uses."""
    found: list[str] = _NEWLINE.findall(text)
    return Counter(found).most_common(1)[0][0] if found else "\n"


def _ended(text: str) -> Iterator[tuple[str, str]]:
    """The lines of a text, each with its newline; the last may have none."""
    start = 0
    for newline in _NEWLINE.finditer(text):
        yield text[start : newline.start()], newline[0]
        start = newline.end()
    if start < len(text):
        yield text[start:], ""


def _alike(one: Sequence[tuple[str, str]], other: Sequence[tuple[str, str]]) -> int:
    """How many first lines two texts share."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a[0] != b[0] or bool(a[1]) != bool(b[1])), min(len(one), len(other)))


def unified_diff(path: str, before: str | None, after: str) -> str:
    """The difference of two texts as a unified diff; a document that is new comes from /dev/null."""
    a, b = _diffed(before or ""), _diffed(after)
    head = max(_same(a, b) - CONTEXT_LINES, 0)  # what is the same above and below is left out of the search, slow in a long log
    lines = [f"--- {path if before is not None else '/dev/null'}", f"+++ {path}"]
    for group in _groups(a[head:], b[head:]):
        lines.append(f"@@ -{_span(group[0][1], group[-1][2], head)} +{_span(group[0][3], group[-1][4], head)} @@")
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in a[head + a1 : head + a2]]
                continue
            lines += [f"-{line}" for line in a[head + a1 : head + a2]]
            lines += [f"+{line}" for line in b[head + b1 : head + b2]]
    return "\n".join(lines)


def _groups(a: Sequence[str], b: Sequence[str]) -> list[list[Opcode]]:
    """What changes, in groups with a few lines around; looked for between the first and the last lines that differ.

    >>> _groups(["x", "y"], ["x", "z", "y"])
    [[('equal', 0, 1, 0, 1), ('insert', 1, 1, 1, 2), ('equal', 1, 2, 2, 3)]]
    """
    top = _same(a, b)
    below = _same(a[top:][::-1], b[top:][::-1])
    ends = len(a) - below, len(b) - below
    around = min(below, CONTEXT_LINES)
    if max(ends) - top <= MAX_COMPARED_LINES:
        return list(SequenceMatcher(None, a[: ends[0] + around], b[: ends[1] + around]).get_grouped_opcodes(CONTEXT_LINES))
    opcodes: list[Opcode] = [
        ("equal", max(top - CONTEXT_LINES, 0), top, max(top - CONTEXT_LINES, 0), top),
        ("replace", top, ends[0], top, ends[1]),
        ("equal", ends[0], ends[0] + around, ends[1], ends[1] + around),
    ]
    return [[each for each in opcodes if each[2] > each[1] or each[4] > each[3]]]


def _same(a: Sequence[str], b: Sequence[str]) -> int:
    """How many first lines are the same."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _diffed(text: str) -> list[str]:
    """Lines to compare; that the last one has no newline is part of it, as diff shows it."""
    return [line if end else f"{line}\n\\ No newline at end of file" for line, end in _ended(text)]


def _span(first: int, last: int, head: int) -> str:
    size = last - first
    start = head + first + (1 if size else 0)
    return f"{start}" if size == 1 else f"{start},{size}"
