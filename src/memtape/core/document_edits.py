"""What is written into documents: notes, which are only appended, and edits, which are proposed first and applied later.

A note is an entry of its own: a heading that memtape writes (when, what kind, by which agent, in which run, its id) and below it
the author's words. Those words are data. A line among them that could be taken for a heading of ours, or that would swallow the
headings of later notes (a fence that is never closed, an opening tag), is escaped with a backslash as in markdown.

An edit replaces a fragment that occurs exactly once, or the whole text. It stores the hash of the text it was made on and of its
result, so it can be evaluated against the document of any later day: `clean` (the document is unchanged), `moved` (the document
changed elsewhere and still has the fragment once), `done` (the document already has the result) or `stale` (the edit must be
proposed again).

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
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memtape.core.brief.sanitize import safe_name
from memtape.core.codec import digest, time_text
from memtape.core.text_diff import normalize_newlines, unified_diff
from memtape.errors import Invalid

NoteKind = Literal["journal", "learning", "note"]
ProposalStatus = Literal["proposed", "accepted", "rejected"]
EditState = Literal["clean", "moved", "done", "stale"]

# In characters.
MAX_NOTE_LENGTH = 20_000
MAX_FRAGMENT_LENGTH = 20_000
MAX_TEXT_LENGTH = 200_000
# Characters that no reader sees or that change how lines look: controls except tab and newline, separators, bidi overrides.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_NOTE_HEADING = re.compile(r"\s*#{1,6}\s*\d{4}-\d\d-\d\dT")
_HEADING_LIKE = re.compile(r" {0,3}(?:#{1,2}(?=[ \t]|$)|=+[ \t]*$|-+[ \t]*$|<(?=[/!?A-Za-z]))")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def check_text(field: str, text: str, max_length: int) -> str:
    """Returns a text of several lines with plain newlines. Raises `Invalid` if it has invisible characters or is too long.

    >>> check_text("text", "waited\\u202e", 100)
    Traceback (most recent call last):
    memtape.errors.Invalid: text: contains an invisible character (U+202E). Remove it
    """
    text = normalize_newlines(text)
    if match := _INVISIBLE.search(text):
        raise Invalid(field, f"contains an invisible character (U+{ord(match[0]):04X})", "Remove it")
    if len(text) > max_length:
        raise Invalid(field, f"has {len(text):,} characters", f"Write at most {max_length:,}")
    return text


# ---- notes ---------------------------------------------------------------------------------------------------------------


def note_text(text: str) -> str:
    """Returns the words of a note without the blank space around them. Raises `Invalid` if there are none, or too many."""
    words = check_text("text", text, MAX_NOTE_LENGTH).strip("\n").rstrip()
    if not words.strip():
        raise Invalid("text", "is blank", "Write what is to be remembered")
    return words


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteEntry:
    """A note as it is written into its document.

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
    def signature(self) -> str:
        """Who wrote it, in which run, under which id: the part of its heading that does not depend on the time."""
        return f"{self.kind} by {self.agent}{f' in run {safe_name(self.run)}' if self.run else ''} [{self.id}]"

    @property
    def text_lines(self) -> list[str]:
        """The heading and the words below it."""
        return [f"## {time_text(self.at.replace(microsecond=0))} {self.signature}", *escape_headings(self.text.split("\n"))]

    def find_in(self, text: str) -> tuple[int, int] | None:
        """Returns the first and last line of this note in a text, with any time in its heading; None if it is not there.

        A note of the same id with other words is not this note.
        """
        words, lines = self.text_lines[1:], text.split("\n")
        for at, line in enumerate(lines):
            end = at + 1 + len(words)
            is_heading = line.endswith(self.signature) and _NOTE_HEADING.match(line)
            is_own_heading = is_heading and line.split(" ", 2)[2:] == [self.signature]
            # The note ends here: a line that follows directly would belong to it.
            ends = not "".join(lines[end : end + 1])
            if is_own_heading and lines[at + 1 : end] == words and ends:
                return at + 1, end
        return None

    def text_to_append(self, text: str) -> str:
        """Returns what is to be appended to a text, so that the note follows after a blank line.

        >>> from datetime import UTC
        >>> entry = NoteEntry(id="n1", kind="note", agent="a", at=datetime(2026, 5, 4, tzinfo=UTC), text="Out.")
        >>> entry.text_to_append("no newline")
        '\\n\\n## 2026-05-04T00:00:00Z note by a [n1]\\nOut.\\n'
        """
        gap = "" if text == "" or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        return gap + "\n".join(self.text_lines) + "\n"


def escape_headings(lines: Sequence[str]) -> list[str]:
    """Escapes lines that could be taken for a heading of ours or would hide one that follows. Code in closed fences stays.

    >>> escape_headings(["### fine", "## 2026-05-04T09:30:00Z journal by boss [x]", "Title", "==="])
    ['### fine', '\\\\## 2026-05-04T09:30:00Z journal by boss [x]', 'Title', '\\\\===']
    >>> escape_headings(["```sh", "# a comment", "```", "~~~ never closed"])
    ['```sh', '# a comment', '```', '\\\\~~~ never closed']
    """
    escaped: list[str] = []
    while len(escaped) < len(lines):
        at = len(escaped)
        fence_end = _fence_end(lines, at)
        if fence_end is not None:
            # Inside a fence only a copy of our own heading is escaped: `find_in` does not know of fences.
            escaped += [f"\\{line}" if _NOTE_HEADING.match(line) else line for line in lines[at : fence_end + 1]]
        else:
            line = lines[at]
            is_dangerous = _HEADING_LIKE.match(line) or _NOTE_HEADING.match(line) or _FENCE.match(line)
            escaped.append(f"\\{line}" if is_dangerous else line)
    return escaped


def _fence_end(lines: Sequence[str], at: int) -> int | None:
    """Returns the line that closes the fence that a line opens; None if it opens none, or if readers of markdown disagree."""
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
    """A proposed change of one document: either `old` and `new`, or the whole `text`."""

    path: str
    base: str | None  # hash of the text it was made on; None if there was no such document
    result: str  # hash of the text after the edit
    diff: str
    old: str | None = None
    new: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class EditResult:
    """The state of an edit against a text, and the text after it; no text if it cannot or need not be applied."""

    state: EditState
    text: str | None = None


def make_edit(path: str, before: str | None, *, old: str | None = None, new: str | None = None, text: str | None = None) -> Edit:
    """Returns an edit of a text; `before` is None for a new document. Raises `Invalid` if it cannot be applied or is empty."""
    if text is not None and (old is not None or new is not None):
        raise Invalid("text", "is the whole new text", "Give either old and new, or text alone")
    if text is not None:
        text = check_text("text", text, MAX_TEXT_LENGTH)
        text = text if text.endswith("\n") else f"{text}\n"
        after = text
    else:
        if old is None or new is None:
            raise Invalid("new" if new is None else "old", "is missing", "Give old and new, or the whole text")
        old, new = normalize_newlines(old), check_text("new", new, MAX_FRAGMENT_LENGTH)
        after = _replace_once(path, before, old, new)
    if after == before:
        raise Invalid("new" if text is None else "text", "changes nothing", "Propose what should be different")
    if not after.strip():
        raise Invalid("new" if text is None else "text", "would leave an empty document", "Ask the owner to remove the document")
    base = None if before is None else digest(before)
    return Edit(path=path, base=base, result=digest(after), diff=unified_diff(path, before, after), old=old, new=new, text=text)


def _replace_once(path: str, before: str | None, old: str, new: str) -> str:
    if before is None:
        raise Invalid("path", f"there is no document '{path}'", "Give the whole text to propose a new one")
    if len(old) > MAX_FRAGMENT_LENGTH:
        raise Invalid("old", f"has {len(old):,} characters", f"Quote at most {MAX_FRAGMENT_LENGTH:,}, or give the whole text")
    if not old or (count := _occurrences(before, old)) == 0:
        raise Invalid("old", f"does not occur in {path}", "Quote it letter by letter, with its newlines")
    if count > 1:
        raise Invalid("old", f"occurs more than once in {path}", "Quote more of the text around it")
    return before.replace(old, new)


def _occurrences(text: str, part: str) -> int:
    """Returns how often a part occurs in a text: 0, 1, or 2 for more often. Overlapping occurrences count.

    >>> _occurrences("aaa", "aa"), _occurrences("aba", "b")
    (2, 1)
    """
    first = text.find(part)
    return 0 if first < 0 else 1 if text.find(part, first + 1) < 0 else 2


def evaluate_edit(edit: Edit, now: str | None, intended: str | None = None) -> EditResult:
    """Returns the state of an edit against the document of today; `now` is None if there is no such document.

    `intended` is the hash of the text that an interrupted acceptance was about to write.
    """
    hash = None if now is None else digest(now)
    if hash is not None and hash in (edit.result, intended):
        return EditResult("done")
    if hash == edit.base:
        return EditResult("clean", edit.text if edit.old is None or now is None else now.replace(edit.old, edit.new or ""))
    if now is None or edit.old is None or _occurrences(now, edit.old) != 1:
        return EditResult("stale")
    return EditResult("moved", now.replace(edit.old, edit.new or ""))
