"""The pages of an agent's documents: searched with citations that open at the lines, and how their index stands.

    /agents/{agent}/documents                 what was found for ?q=, else every document by type; ?slot= ?type= ?n=
    /agents/{agent}/documents/view            one document, ?path=; ?start= ?end= ?hash= a citation of it, ?from= another part
    /agents/{agent}/documents/health          how the index stands
    POST /agents/{agent}/documents/reindex    bring it in step with the files now

What stands in a document is data: it is shown letter by letter, never as HTML, and words are marked in it only by splitting it.
Asked for by htmx, the first address gives only what was found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from memtape.core.recall.explanations import age_phrase
from memtape.documents.citations import lines_of
from memtape.documents.question import ParsedQuestion, parse_question
from memtape.documents.sources import SYNC_PROBLEM, WATCH_PROBLEM
from memtape.errors import Conflict, Invalid, MemtapeError, Unknown
from memtape.surfaces.translate import error_report
from memtape.surfaces.web.brief_lines import whole
from memtape.surfaces.web.desk import Desk, only_a_part

if TYPE_CHECKING:
    pass

FOUND, MOST = 10, 100  # passages at first, and at most
WINDOW, BEFORE = 300, 15  # lines of a document on one page, and those before the ones that are cited
LONGEST, HEAVIEST = 2_000, 150_000  # characters of a line, and of a page: a file may have 4 MB, all on one line
STALE_SECONDS = 3600
SLOTS: Mapping[str, str] = {"": "as configured", "sqlite_fts": "by words", "hybrid_embeddings": "by words and meaning"}
ARMS: Mapping[str, str] = {"fts": "words", "vector": "meaning", "both": "words and meaning", "exact": "named exactly"}
TIERS: Mapping[int, tuple[str, str]] = {
    1: ("owner's rule", "Yours: an agent can only propose to change it."),
    2: ("computed", "Computed by memtape from what was observed."),
    3: ("agent's note", "Written by an agent: what it thought, not what is so."),
    4: ("external", "Came from outside. It may be wrong or meant to mislead; it is never an instruction."),
}


class DocumentPages:
    """The documents of the agents of one memory."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._ask = desk, desk.ask

    def routes(self) -> list[BaseRoute]:
        """Every address."""
        path = "/agents/{agent}/documents"
        return [
            Route(path, self._desk.page(self.documents)),
            Route(f"{path}/view", self._desk.page(self.view)),
            Route(f"{path}/health", self._desk.page(self.health)),
            Route(f"{path}/reindex", self._desk.writing(self.reindex), methods=["POST"]),
        ]

    # ---- searching ------------------------------------------------------------------------------------------------

    def documents(self, request: Request) -> Response:
        """What was found, or every document; only that where a form changes nothing else."""
        agent, query = self._desk.agent(request), request.query_params
        asked = {name: query.get(name, "").strip() for name in ("q", "slot", "type", "n")}
        shelves = self._ask("list_documents", agent["id"], **{"type": asked["type"]} if asked["type"] else {})["shelves"]
        shown: dict[str, Any] = {
            "agent": agent, "path": _path(agent), "asked": asked, "slots_of_search": SLOTS, "tiers_of_documents": TIERS,
            "types": [shelf["type"] for shelf in shelves],
            "shelves": [each for each in shelves if asked["type"] in ("", each["type"])],
            "found": None, "problem": "",
        }  # fmt: skip
        part = only_a_part(request)
        if not part:
            shown |= {"standings": self._standings(agent["id"]), "done": "", "health_problem": ""}
        template = "documents_found.html" if part else "documents.html"
        if not asked["q"]:
            return self._desk.show(template, **shown)
        try:
            return self._desk.show(template, **shown | {"found": self._found(agent, asked)})
        except (Conflict, Invalid) as error:
            return self._desk.show(template, error_report(error).status, **shown | {"problem": str(error)})

    def _found(self, agent: Mapping[str, Any], asked: Mapping[str, str]) -> dict[str, Any]:
        limit = min(whole("n", asked["n"]) or FOUND, MOST)
        given: dict[str, Any] = {"slot": asked["slot"]} if asked["slot"] else {}
        if asked["type"]:
            given["types"] = [asked["type"]]
        found = self._ask("search_documents", agent["id"], query=asked["q"], limit=limit, **given)
        marks = marker(parse_question(asked["q"]), self._desk.memory.resources.documents.stem)
        hits = [
            {**hit, "snippet": list(marks(hit["snippet"])), "arm": ARMS.get(hit["source"], hit["source"]),
             "to": cited_at(_path(agent), hit["path"], hit["start_line"], hit["end_line"], hit["content_hash"])}
            for hit in found["results"]
        ]  # fmt: skip
        more = len(hits) == limit < MOST
        further = {**asked, "n": str(min(limit + 2 * FOUND, MOST))}
        return {**found, "hits": hits, "more": f"{_path(agent)}/documents?{_query(further)}#hit-{limit}" if more else ""}

    # ---- one document ---------------------------------------------------------------------------------------------

    def view(self, request: Request) -> Response:
        """A document with its lines numbered; those that are cited stand out, and it is said whether they still stand."""
        agent, query = self._desk.agent(request), request.query_params
        path = query.get("path", "")
        start, end, begin = (whole(name, query.get(name, "")) for name in ("start", "end", "from"))
        cited = range(start or 1, max(end or 0, start or 1) + 1) if start else range(0)
        verdict = self._verdict(agent["id"], path, cited, query)
        try:
            lines = lines_of(self._ask("get_document", agent["id"], path=path)["text"])
        except (Invalid, Unknown):
            if verdict is None:
                raise Unknown("document", "document", path, f"Find it among those of '{agent['id']}'") from None
            lines = []
        window = windowed(lines, cited, begin)
        citation = {"path": path, "start": start, "end": end, "hash": query.get("hash", "")}
        about = next((one for shelf in self._shelves(agent["id"], path) for one in shelf["latest"]), None)
        return self._desk.show(
            "document.html", 404 if verdict and verdict["verdict"] == "gone" else 200,
            agent=agent, path=_path(agent), document=path, about=about, tiers_of_documents=TIERS, cited=cited, window=window,
            verdict=verdict, places=_places(f"{_path(agent)}/documents/view", citation, window, verdict),
        )  # fmt: skip

    def _shelves(self, agent: str, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ask("list_documents", agent, path=path)["shelves"] if path else []
        return found

    def _verdict(self, agent: str, path: str, cited: range, query: Mapping[str, str]) -> dict[str, Any] | None:
        """Whether the cited lines still say what they said, where the citation tells what that was."""
        if not (cited and query.get("hash")):
            return None
        lines = {"start_line": cited[0], "end_line": cited[-1]}
        return self._ask("verify_citation", agent, path=path, content_hash=query["hash"], **lines)

    # ---- the index ------------------------------------------------------------------------------------------------

    def health(self, request: Request) -> Response:
        """How the index stands."""
        return self._health(self._desk.agent(request), DONE.get(request.query_params.get("done", ""), ""))

    def _health(self, agent: Mapping[str, Any], done: str, error: MemtapeError | None = None) -> Response:
        return self._desk.show(
            "documents_health.html", error_report(error).status if error else 200, agent=agent, path=_path(agent),
            standings=self._standings(agent["id"]), done=done, health_problem=str(error) if error else "",
        )  # fmt: skip

    def _standings(self, agent: str) -> list[dict[str, Any]]:
        """Of the agent's own documents, and of those that all agents share where there are any."""
        own = self._ask("index_health", agent)
        shared = own["shared"]
        return [_stands("its own", own), *([_stands("shared with all agents", shared)] if shared["roots"] else [])]

    def reindex(self, request: Request, form: Mapping[str, str]) -> Response:
        """Bring the index in step with the files; what is wrong is said beside it."""
        agent = self._desk.agent(request)
        try:
            self._ask("reindex_documents", agent["id"])
            if self._ask("index_health", agent["id"])["shared"]["roots"]:
                self._ask("reindex_documents", agent["id"], shared=True)
        except (Conflict, Invalid) as error:
            return self._health(agent, "", error)
        return RedirectResponse(f"{_path(agent)}/documents/health?done=reindexed", 303)


DONE: Mapping[str, str] = {"reindexed": "The index is in step with the files."}


def _stands(whose: str, standing: Mapping[str, Any]) -> dict[str, Any]:
    """How an index stands, as its panel tells it: what is wrong with all of it apart from the files that are left out."""
    seconds, whole_index = standing["stale_seconds"], {SYNC_PROBLEM, WATCH_PROBLEM, *standing["roots"]}
    troubles = [one for one in standing["problems"] if one["path"] in whole_index]
    return {
        **standing,
        "whose": whose,
        "age": None if seconds is None else age_phrase(seconds / 86400),
        "meaning": list(_meaning(standing)),
        "warnings": [text for text in (stale(standing), *map(_trouble, troubles)) if text],
        "left_out": [one for one in standing["problems"] if one not in troubles],
    }


def _trouble(one: Mapping[str, str]) -> str:
    where = {SYNC_PROBLEM: "The last sync", WATCH_PROBLEM: "Watching the folders"}.get(one["path"], one["path"])
    return f"{where}: {one['problem']}."


def _meaning(standing: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The embedding models, each with how far it has come.

    >>> covered = {"model": "static-256", "have": 40, "of": 52, "answers": False}
    >>> list(_meaning({"models": [], "coverage": [covered]})), list(_meaning({"models": ["static-256"]}))
    ([('static-256', '40 of 52 passages, not complete yet')], [('static-256', 'complete')])
    """
    for one in standing.get("coverage", ()):
        far = f"{one['have']:,} of {one['of']:,} passages"
        yield one["model"], far if one["answers"] else f"{far}, not complete yet"
    if "coverage" not in standing:
        yield from ((model, "complete") for model in standing["models"])


def stale(standing: Mapping[str, Any]) -> str:
    """Why the index may not have what was written last, in words; empty where it is fresh.

    >>> stale({"roots": ["/desk"], "last_sync": None, "stale_seconds": None})
    'It was never brought in step with the files: nothing is found yet.'
    >>> stale({"roots": ["/desk"], "last_sync": "2026-05-12T08:00:00Z", "stale_seconds": 3 * 86400.0})
    'Last in step with the files 3 days ago: what was written since then is not found.'
    >>> stale({"roots": ["/desk"], "last_sync": "2026-05-12T08:00:00Z", "stale_seconds": 60.0})
    ''
    >>> pending = {"added": 2, "changed": 0, "removed": 1}
    >>> stale({"roots": ["/desk"], "last_sync": "2026-05-12T08:00:00Z", "stale_seconds": 60.0, "pending": pending})
    'Files differ from the index now: 2 added, 1 removed. What they say is not found yet.'
    """
    if not standing["roots"]:
        return ""
    if standing["last_sync"] is None:
        return "It was never brought in step with the files: nothing is found yet."
    if pending := standing.get("pending"):
        told = ", ".join(f"{n} {what}" for what, n in pending.items() if n)
        return f"Files differ from the index now: {told}. What they say is not found yet." if told else ""
    if standing["stale_seconds"] <= STALE_SECONDS:
        return ""
    return (
        f"Last in step with the files {age_phrase(standing['stale_seconds'] / 86400)}: what was written since then is not found."
    )


# ---- marking words --------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W_]+")


def marker(asked: ParsedQuestion, stem: Callable[[str], str]) -> Callable[[str], Iterator[tuple[str, bool]]]:
    """Cuts a text into parts, each with whether it was asked for: the words by their stem, as the index compares them.

    >>> marks = marker(parse_question('stopped on "too high" ERR-4031 黄金突破'), lambda word: word.lower()[:4])
    >>> "".join(f"[{part}]" if was else part for part, was in marks("The stops: too high <b>, ERR-4031, 看黄金突破了"))
    'The [stops]: [too high] <b>, [ERR-4031], 看[黄金突破]了'
    """
    stems = {stem(word) for word, _ in asked.words}
    exact = [r"\s+".join(map(re.escape, part.removeprefix("$").split())) for part in asked.exact]
    unspaced = [re.escape(word) for word, _ in asked.words if not word.isascii()]
    names = re.compile("|".join((*exact, *unspaced)), re.IGNORECASE) if exact or unspaced else None

    def marks(text: str) -> Iterator[tuple[str, bool]]:
        spans = [match.span() for match in _WORD.finditer(text) if stem(match[0]) in stems]
        spans += _overlapping(names, text) if names else ()
        at = 0
        for start, end in _joined(spans):
            yield from ((part, was) for part, was in ((text[at:start], False), (text[start:end], True)) if part)
            at = end
        if text[at:]:
            yield text[at:], False

    return marks


def _overlapping(names: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Pairs of characters overlap, so the next is looked for from the next character on."""
    found = names.search(text)
    while found is not None:
        yield found.span()
        found = names.search(text, found.start() + 1)


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


# ---- a part of a document -------------------------------------------------------------------------------------------------


class DocumentLine(NamedTuple):
    """A line as it is shown: what is left of it where it is very long, and whether it is cited."""

    number: int
    text: str
    left_out: int
    cited: bool


class DocumentWindow(NamedTuple):
    """Some lines of a document, and where the lines before and after them begin."""

    lines: Sequence[DocumentLine]
    of: int
    earlier: int | None
    later: int | None


def windowed(lines: Sequence[str], cited: range, begin: int | None = None) -> DocumentWindow:
    """As much of a document as a page holds: from the line asked for, else from a little before what is cited.

    >>> window = windowed([f"line {n}" for n in range(1, 1001)], range(500, 503))
    >>> window.lines[0].number, window.lines[-1].number, window.earlier, window.later, window.of
    (485, 784, 185, 785, 1000)
    >>> windowed(["x" * 5000], range(0)).lines[0].left_out
    3000
    """
    if begin is None:
        begin = cited[0] - BEFORE if cited and len(lines) > WINDOW else 1
    begin = max(1, min(begin, len(lines)))
    shown: list[DocumentLine] = []
    weight = 0
    for number, text in enumerate(lines[begin - 1 : begin - 1 + WINDOW], begin):
        if shown and weight > HEAVIEST:
            break
        shown.append(DocumentLine(number, text[:LONGEST], max(0, len(text) - LONGEST), number in cited))
        weight += len(shown[-1].text)
    after = begin + len(shown)
    return DocumentWindow(
        shown, len(lines), max(1, begin - WINDOW) if begin > 1 else None, after if after <= len(lines) else None
    )


def cited_at(agent_path: str, document: str, start: int, end: int, hash_: str = "") -> str:
    """The address of lines of a document, which opens there.

    >>> cited_at("/agents/gold", "journal/a b.md", 12, 14)
    '/agents/gold/documents/view?path=journal%2Fa+b.md&start=12&end=14#L12'
    """
    return f"{agent_path}/documents/view?{_query({'path': document, 'start': start, 'end': end, 'hash': hash_})}#L{start}"


class Places(NamedTuple):
    """Where a page of a document leads: the lines before and after it, those that are cited, where their words stand now."""

    earlier: str = ""
    later: str = ""
    cited: str = ""
    moved: str = ""


def _places(address: str, citation: Mapping[str, Any], window: DocumentWindow, verdict: Mapping[str, Any] | None) -> Places:
    def to(line: int | None, **more: Any) -> str:
        return "" if line is None else f"{address}?{_query({**citation, **more})}#L{line}"

    start, shown = citation["start"], {line.number for line in window.lines}
    out_of_sight = start if start is not None and start <= window.of and start not in shown else None
    moved = verdict if verdict and verdict["verdict"] == "moved" else {"start_line": None, "end_line": None}
    return Places(
        to(window.earlier, **{"from": window.earlier}), to(window.later, **{"from": window.later}), to(out_of_sight),
        to(moved["start_line"], start=moved["start_line"], end=moved["end_line"]),
    )  # fmt: skip


def _query(given: Mapping[str, Any]) -> str:
    return urlencode({name: value for name, value in given.items() if value not in ("", None)})


def _path(agent: Mapping[str, Any]) -> str:
    return f"/agents/{agent['id']}"
