"""The pages of what an agent writes: the edits it proposes to its documents, for the owner to decide, and its own notes.

    /agents/{agent}/proposals              the inbox: what waits for a word first, what was decided below
    /agents/{agent}/proposals/{proposal}   one of them, with all of its diff
    POST /agents/{agent}/proposals/accept, /reject    the owner's word; the field `proposal_id` says on which, `note` why
    /agents/{agent}/notes                  what it has added by itself; ?run= of one run

A diff is read line by line here and shown as text, so nothing that a model wrote in it is more than letters on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from memtape.errors import Conflict, Invalid, Unknown
from memtape.surfaces.translate import error_report
from memtape.surfaces.web.desk import Desk, Writes
from memtape.surfaces.web.document_pages import LONGEST, cited_at

DECIDED, NOTES, MOST = 50, 200, 200  # that are listed; MOST: that are asked for
IN_THE_INBOX, ALONE = 120, 5_000  # lines of a diff
HEAVIEST = 400_000  # characters of a diff
STATES: Mapping[str, tuple[str, str]] = {
    "clean": ("applies", "The document is as it was when this was proposed."),
    "moved": ("applies", "The document has changed elsewhere since; what this would replace still stands there once."),
    "done": ("done already", "The document says so already: accepting it changes nothing and is only recorded."),
    "stale": ("no longer applies", "The document has changed where this would change it. Reject it and let it be proposed anew."),
}
DONE: Mapping[str, str] = {
    "accepted": "Accepted: the document is changed.",
    "unindexed": "Accepted: the document is changed, but a search does not find the change yet. See how the index stands.",
    "rejected": "Rejected: the document stays as it is.",
    "before": "Nothing was done: it was decided so before.",
}


class ProposalPages:
    """What the agents of one memory write, and propose to write."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._ask = desk, desk.ask

    def routes(self) -> list[BaseRoute]:
        """Every address."""
        path = "/agents/{agent}/proposals"
        return [
            Route(path, self._desk.page(self.proposals)),
            *(Route(f"{path}/{word}", self._desk.writing(self._said(word)), methods=["POST"]) for word in ("accept", "reject")),
            Route(f"{path}/{{proposal}}", self._desk.page(self.proposal)),
            Route("/agents/{agent}/notes", self._desk.page(self.notes)),
        ]

    # ---- proposals ------------------------------------------------------------------------------------------------

    def proposals(self, request: Request) -> Response:
        """The inbox."""
        return self._inbox(self._desk.agent(request), done=DONE.get(request.query_params.get("done", ""), ""))

    def _inbox(self, agent: Mapping[str, Any], status: int = 200, *, done: str = "", problem: str = "") -> Response:
        listed = {word: self._ask("list_proposals", agent["id"], status=word, limit=MOST)
                  for word in ("proposed", "accepted", "rejected")}  # fmt: skip
        decided = [one for word in ("accepted", "rejected") for one in listed[word]["proposals"]]
        decided.sort(key=lambda one: one["decided_at"] or "", reverse=True)
        return self._desk.show(
            "proposals.html", status, agent=agent, path=_path(agent), states=STATES, done=done, problem=problem,
            open=[self._in_the_inbox(agent, one) for one in listed["proposed"]["proposals"]],
            n_decided=listed["accepted"]["total"] + listed["rejected"]["total"],
            decided=[self._in_the_inbox(agent, one) for one in decided[:DECIDED]],
        )  # fmt: skip

    def _in_the_inbox(self, agent: Mapping[str, Any], one: Mapping[str, Any]) -> dict[str, Any]:
        """A proposal with the first lines of its diff; how long all of it is, only the whole diff can tell."""
        if one["diff_left_out"]:
            one = self._ask("get_proposal", agent["id"], proposal_id=one["id"])
        return _shown(one, IN_THE_INBOX)

    def proposal(self, request: Request) -> Response:
        """One proposal with all of its diff."""
        agent, id_ = self._desk.agent(request), request.path_params["proposal"]
        try:
            found = self._ask("get_proposal", agent["id"], proposal_id=id_)
        except (Invalid, Unknown):
            raise Unknown("proposal", "proposal", id_, f"Choose one from the proposals of '{agent['id']}'") from None
        return self._desk.show("proposal.html", agent=agent, path=_path(agent), one=_shown(found, ALONE), states=STATES)

    def _said(self, word: str) -> Writes:
        """The owner accepts a proposal, or rejects it; what stands against it is said on the page."""

        def answer(request: Request, form: Mapping[str, str]) -> Response:
            agent = self._desk.agent(request)
            asked = {name: form[name] for name in ("proposal_id", "note") if form.get(name)}
            try:
                came = self._ask(f"{word}_proposal", agent["id"], **asked)
            except (Conflict, Invalid, Unknown) as error:
                return self._inbox(agent, error_report(error).status, problem=str(error))
            said = "before" if came["duplicate"] else "unindexed" if came["index_problem"] else f"{word}ed"
            return RedirectResponse(f"{_path(agent)}/proposals?done={said}#proposal-{quote(came['id'], safe='')}", 303)

        return answer

    # ---- notes ----------------------------------------------------------------------------------------------------

    def notes(self, request: Request) -> Response:
        """What the agent has written by itself, the newest first; each leads to its lines."""
        agent, run = self._desk.agent(request), request.query_params.get("run", "").strip()
        found = self._ask("list_notes", agent["id"], limit=NOTES, **({"run": run} if run else {}))["notes"]
        told = [
            {**note, "to": cited_at(_path(agent), note["path"], note["start_line"], note["end_line"], note["content_hash"])}
            for note in found
        ]
        return self._desk.show("notes.html", agent=agent, path=_path(agent), notes=told, most=NOTES, run=run)


# ---- a diff ---------------------------------------------------------------------------------------------------------------

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class DiffLine(NamedTuple):
    """A line of a diff: `+` only in the new text, `-` only in the old; ` ` in both; `@` where a part of the document begins.

    The number is that in the new text, or in the old where it stands only there.
    """

    sign: str
    number: int | None
    text: str
    left_out: int = 0
    differs: tuple[int, int] = (0, 0)  # from which character to which it says something else than the line it replaces


def read_diff(diff: str) -> Iterator[DiffLine]:
    """The lines of a unified diff.

    >>> told = ["--- a.md", "+++ a.md", "@@ -4,2 +4,3 @@", " # Risk", "-1 %", "+0.5 %", "++ up", "\\\\ No newline at end of file"]
    >>> for line in read_diff("\\n".join(told)): print(line.sign, line.number, line.text)
    @ None from line 4
      4 # Risk
    - 5 1 %
    + 5 0.5 %
    + 6 + up
    @ None No newline at end of file
    """
    old = new = 0
    for line in diff.split("\n")[2:]:  # the first two name the document
        sign, text = line[:1] or " ", line[1:]
        if sign == "@" and (hunk := _HUNK.fullmatch(line)):
            old, new = int(hunk[1]), int(hunk[2])
            yield DiffLine("@", None, f"from line {max(new, 1)}")
        elif sign == "\\":
            yield DiffLine("@", None, text.strip())
        else:
            yield DiffLine(sign, old if sign == "-" else new, text[:LONGEST], max(0, len(text) - LONGEST))
            old, new = old + (sign != "+"), new + (sign != "-")


class Diff(NamedTuple):
    """A diff as a page shows it: its first lines, how many there are, and what it adds and takes away in all."""

    lines: Sequence[DiffLine]
    of: int
    added: int
    removed: int


def drawn(diff: str, most: int) -> Diff:
    """As many lines of a diff as are wanted, and not more than a page can bear.

    >>> found = drawn("--- a\\n+++ a\\n@@ -1 +1 @@\\n-1 %\\n+2 %", 2)
    >>> [line.sign for line in found.lines], found.of, found.added, found.removed
    (['@', '-'], 3, 1, 1)
    """
    every = _paired(list(read_diff(diff)))
    shown: list[DiffLine] = []
    weight = 0
    for line in every[:most]:
        weight += len(line.text)
        if weight > HEAVIEST:
            break
        shown.append(line)
    signs = [line.sign for line in every]
    return Diff(shown, len(every), signs.count("+"), signs.count("-"))


def _paired(lines: list[DiffLine]) -> list[DiffLine]:
    """Lines that are replaced by as many others, each with what is different in it."""
    runs = [list(run) for _, run in groupby(lines, key=lambda line: line.sign)]
    for before, after in pairwise(runs):
        if (before[0].sign, after[0].sign) == ("-", "+") and len(before) == len(after):
            for n, (old, new) in enumerate(zip(before, after, strict=True)):
                ends = differing(old.text, new.text)
                before[n], after[n] = old._replace(differs=ends[0]), new._replace(differs=ends[1])
    return [line for run in runs for line in run]


def differing(old: str, new: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where two lines differ, in whole words; nowhere in particular where they have no first and no last word in common.

    >>> old, new = "Risk 1 % of equity.", "Risk 0.5 % of equity."
    >>> [line[slice(*ends)] for line, ends in zip((old, new), differing(old, new))]
    ['1', '0.5']
    >>> differing("Buy.", "Sell.")
    ((0, 0), (0, 0))
    """
    start = old.rfind(" ", 0, _alike(old, new)) + 1
    tail = _alike(old[start:][::-1], new[start:][::-1])
    space = old.find(" ", len(old) - tail)
    tail = len(old) - space if tail and space >= 0 else 0
    if not start and not tail:
        return (0, 0), (0, 0)
    return (start, len(old) - tail), (start, len(new) - tail)


def _alike(one: str, other: str) -> int:
    """How many first characters two texts share."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _shown(one: Mapping[str, Any], most: int) -> dict[str, Any]:
    return {**one, "drawn": drawn(one["diff"], most)}


def _path(agent: Mapping[str, Any]) -> str:
    return f"/agents/{agent['id']}"
