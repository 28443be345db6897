"""Texts from files: reduced to one line and a maximum length, without secrets that a person pasted into a note.

The changes are counted, so that a preview can report them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

REDACTED = "[redacted]"
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_SECRETS = re.compile(
    r"""
      -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|$)
    | \b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}                              # model and payment providers
    | \bAKIA[0-9A-Z]{16}\b
    | \bgh[pousr]_[A-Za-z0-9]{20,}
    | \bxox[abprs]-[A-Za-z0-9-]{10,}
    | \beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?   # a JSON web token
    | (?i:\bbearer\s+[A-Za-z0-9._~+/-]{16,}=*)
    | (?i:\b(?:api[_ -]?(?:key|secret)|secret(?:[_ -]?key)?|passw(?:or)?d|passphrase|private[_ -]?key|access[_ -]?token|token)
        ["']?\s*[:=]\s*["']?[^\s"',;]{6,})
    | \b(?:0x)?[0-9a-fA-F]{64}\b                                         # a private key or a hash
    | (?<![A-Za-z0-9+/])(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])(?=[A-Za-z0-9+/]*\d)[A-Za-z0-9+/]{40,}={0,2}
    """,
    re.VERBOSE,
)


_EXIT_MARK = re.compile(r"(?:\[?(?:(t/?p|take[ -]?profit)|(s/?l|stop[ -]?loss)|(so|stop[ -]?out))\b[\s:\d.,%/]*\]?)")
_EXIT_MARK_AT_END = re.compile(r"\[(?:(tp)|(sl)|(so))\b[^\]]*\]$")


def exit_trigger(comment: str) -> str | None:
    """Returns what set off the exit, if a comment is one that a terminal writes by itself.

    >>> [exit_trigger(text) for text in ("[tp]", "sl 1.2345", "my robot[sl]", "so: 48%/12.5/26", "took profit early")]
    ['target', 'stop', 'stop', 'liquidation', None]
    """
    text = comment.strip().lower()
    found = _EXIT_MARK.fullmatch(text) or _EXIT_MARK_AT_END.search(text)
    return None if found is None else "target" if found[1] else "stop" if found[2] else "liquidation"


@dataclass(slots=True)
class TextCleaner:
    """Cleans the texts of one file and counts the changes."""

    controls: int = 0
    cut: int = 0
    redacted: int = 0
    _known: dict[tuple[str, int], str | None] = field(default_factory=dict)

    def line(self, cell: str, limit: int) -> str | None:
        """Returns a text of at most `limit` characters, or None if nothing is left.

        >>> texts = TextCleaner()
        >>> texts.line("broke out\\x07 above\\n2400, api_key=AbCd1234EfGh", 280)
        'broke out above 2400, [redacted]'
        """
        if not cell:
            return None
        known = (cell, limit)
        if known not in self._known:
            self._known[known] = self._clean(cell, limit)
        return self._known[known]

    def _clean(self, cell: str, limit: int) -> str | None:
        # The rest of a long text would be cut in any case.
        text = cell[: limit * 20]
        if _CONTROLS.search(text):
            self.controls += 1
            text = " ".join(_CONTROLS.sub(lambda run: " " if any(c.isspace() for c in run[0]) else "", text).split())
        if len(text) >= 20 and _SECRETS.search(text):
            self.redacted += 1
            text = _SECRETS.sub(REDACTED, text)
        if len(text) > limit:
            self.cut += 1
            text = text[: limit - 1].rstrip() + "…"
        return text or None

    def notes(self) -> list[str]:
        """Returns a note for each kind of change."""
        changes = ((self.controls, "control characters were removed from"), (self.cut, "cut to the maximum length:"),
                   (self.redacted, "likely secrets were redacted in"))  # fmt: skip
        return [f"{what} {n} different text{'' if n == 1 else 's'}" for n, what in changes if n]
