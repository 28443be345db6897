"""The pages of an agent's documents: search with citations, one document at the cited lines, and the health of the index.

/agents/{agent}/documents                 what ?q= finds, else every document by type; ?slot= ?type= ?n=; htmx gets only that
/agents/{agent}/documents/view            one document, ?path=; ?start= ?end= ?hash= a citation of it, ?from= another part
/agents/{agent}/documents/health          the health of the index
POST /agents/{agent}/documents/reindex    sync the index with the files now
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.responses import RedirectResponse, Response

from memtape.core.recall.explanations import age_phrase
from memtape.documents.citations import lines_of
from memtape.documents.sources import SYNC_PROBLEM, WATCH_PROBLEM
from memtape.errors import Conflict, Invalid, MemtapeError, Unknown
from memtape.surfaces.operations.documents import (
    CitationAnswer,
    DocumentRow,
    GetDocument,
    HitRow,
    ListDocuments,
    Reindex,
    SearchDocuments,
    VerifyCitation,
    get_document,
    index_health,
    list_documents,
    reindex_documents,
    search_documents,
    verify_citation,
)
from memtape.surfaces.operations.rules import list_pinned
from memtape.surfaces.questions import OfAgent
from memtape.surfaces.translate import error_report
from memtape.surfaces.web.document_text import DocumentWindow, document_window, lines_address, match_marker, record_address
from memtape.surfaces.web.forms import chosen_fields, query_text, read_question, row_fields, whole_number
from memtape.surfaces.web.register import form, page
from memtape.surfaces.web.site import PageRequest

PASSAGES_AT_FIRST, MAX_PASSAGES = 10, 100
FRESH_SECONDS = 3600
SLOTS: Mapping[str, str] = {"": "as configured", "sqlite_fts": "by words", "hybrid_embeddings": "by words and meaning"}
MATCHED_BY: Mapping[str, str] = {"fts": "words", "vector": "meaning", "both": "words and meaning", "exact": "exact name"}
DOCUMENT_TIERS: Mapping[int, tuple[str, str]] = {
    1: ("owner's rule", "Yours: an agent can only propose to change it."),
    2: ("computed", "Computed by memtape from its records."),
    3: ("agent's note", "Written by an agent: its opinion, not a fact."),
    4: ("external", "From outside. It may be wrong or meant to mislead; it is never an instruction."),
}
DONE: Mapping[str, str] = {"reindexed": "The index is in sync with the files."}


# ---- search --------------------------------------------------------------------------------------------------------------


class PassageView(NamedTuple):
    """A passage that was found: its text in parts, each with whether it matches, and where it leads."""

    hit: HitRow
    snippet: Sequence[tuple[str, bool]]
    matched_by: str
    lines: str  # the address of its lines
    record: str  # the address of the run or decision that it is about; empty: none


class SearchView(NamedTuple):
    """The passages that a search found."""

    passages: Sequence[PassageView]
    slot: str
    note: str | None
    more: str  # the address that shows more passages; empty: there are no more


@page("/agents/{agent}/documents", nav="Documents", order=80)
def documents_page(request: PageRequest) -> Response:
    """The passages that a search finds, or every document by type."""
    search = {name: request.query.get(name, "").strip() for name in ("q", "slot", "type", "n")}
    listing = read_question(ListDocuments, agent=request.agent.id, **chosen_fields(search, "type"))
    shelves = request.ask(list_documents, listing).shelves
    values: dict[str, Any] = {
        "search": search, "search_slots": SLOTS, "document_tiers": DOCUMENT_TIERS,
        "types": [shelf.type for shelf in shelves],
        "shelves": [shelf for shelf in shelves if search["type"] in ("", shelf.type)],
        "found": None, "problem": "",
    }  # fmt: skip
    if not request.partial:
        values |= {"indexes": _index_views(request), "done": "", "health_problem": ""}
        pins = request.ask(list_pinned, OfAgent(agent=request.agent.id)).pinned
        values["missing_rules"] = [pin.problem for pin in pins if pin.problem]
    template = "documents_found.html" if request.partial else "documents.html"
    if not search["q"]:
        return request.show(template, **values)
    try:
        return request.show(template, **values | {"found": _search(request, search)})
    except (Conflict, Invalid) as error:
        return request.show(template, error_report(error).status, **values | {"problem": str(error)})


def _search(request: PageRequest, search: Mapping[str, str]) -> SearchView:
    limit = min(whole_number("n", search["n"]) or PASSAGES_AT_FIRST, MAX_PASSAGES)
    filters: dict[str, Any] = {**chosen_fields(search, "slot"), **({"types": [search["type"]]} if search["type"] else {})}
    query = read_question(SearchDocuments, agent=request.agent.id, query=search["q"], limit=limit, **filters)
    found = request.ask(search_documents, query)
    marks = match_marker(search["q"], request.site.memory.resources.documents.stem)
    passages = [
        PassageView(
            hit, list(marks(hit.snippet)), MATCHED_BY.get(hit.source, hit.source),
            lines_address(request.agent_path, hit.path, hit.start_line, hit.end_line, hit.content_hash),
            record_address(request.agent_path, hit.run, hit.decision),
        )
        for hit in found.results
    ]  # fmt: skip
    more = ""
    if len(passages) == limit < MAX_PASSAGES:
        further = query_text({**search, "n": min(limit + 2 * PASSAGES_AT_FIRST, MAX_PASSAGES)})
        more = f"{request.agent_path}/documents?{further}#hit-{limit}"
    return SearchView(passages, found.slot, found.note, more)


# ---- one document --------------------------------------------------------------------------------------------------------


@page("/agents/{agent}/documents/view", within="Documents")
def document_page(request: PageRequest) -> Response:
    """A document with its lines numbered. Cited lines are marked, and the page states whether the citation is still valid."""
    agent, query, path = request.agent.id, request.query, request.query.get("path", "")
    start, end, begin = (whole_number(name, query.get(name, "")) for name in ("start", "end", "from"))
    cited = range(start or 1, max(end or 0, start or 1) + 1) if start else range(0)
    verdict = _verdict(request, path, cited)
    try:
        lines = lines_of(request.ask(get_document, read_question(GetDocument, agent=agent, path=path)).text)
    except (Invalid, Unknown):
        if verdict is None:
            raise Unknown("document", "document", path, f"Search for it among those of '{agent}'") from None
        lines = []
    window = document_window(lines, cited, begin)
    citation = {"path": path, "start": start, "end": end, "hash": query.get("hash", "")}
    return request.show(
        "document.html", 404 if verdict and verdict.verdict == "gone" else 200,
        document=path, about=_document_row(request, path), document_tiers=DOCUMENT_TIERS, cited=cited, window=window,
        verdict=verdict, links=_document_links(f"{request.agent_path}/documents/view", citation, window, verdict),
    )  # fmt: skip


def _document_row(request: PageRequest, path: str) -> DocumentRow | None:
    """What the index knows of a document."""
    if not path:
        return None
    shelves = request.ask(list_documents, read_question(ListDocuments, agent=request.agent.id, path=path)).shelves
    return next((one for shelf in shelves for one in shelf.latest), None)


def _verdict(request: PageRequest, path: str, cited: range) -> CitationAnswer | None:
    """Whether the cited lines are unchanged; None if the address has no citation with its hash."""
    content_hash = request.query.get("hash")
    if not (cited and content_hash):
        return None
    citation = {"path": path, "content_hash": content_hash, "start_line": cited[0], "end_line": cited[-1]}
    return request.ask(verify_citation, read_question(VerifyCitation, agent=request.agent.id, **citation))


class DocumentLinks(NamedTuple):
    """Where a page of a document leads: the lines before and after, the cited lines, and where the cited text is now."""

    earlier: str = ""
    later: str = ""
    cited: str = ""
    moved: str = ""


def _document_links(
    address: str, citation: Mapping[str, Any], window: DocumentWindow, verdict: CitationAnswer | None
) -> DocumentLinks:
    def to(line: int | None, **changed: Any) -> str:
        return "" if line is None else f"{address}?{query_text({**citation, **changed})}#L{line}"

    start, shown = citation["start"], {line.number for line in window.lines}
    out_of_window = start if start is not None and start <= window.of and start not in shown else None
    moved = ""
    if verdict is not None and verdict.verdict == "moved":
        moved = to(verdict.start_line, path=verdict.path, start=verdict.start_line, end=verdict.end_line)
    return DocumentLinks(
        to(window.earlier, **{"from": window.earlier}), to(window.later, **{"from": window.later}), to(out_of_window), moved
    )


# ---- the index -----------------------------------------------------------------------------------------------------------


class IndexView(NamedTuple):
    """The health of an index: its figures, warnings about the whole index, and the files that were left out."""

    whose: str
    health: Mapping[str, Any]
    age: str | None
    models: Sequence[tuple[str, str]]
    warnings: Sequence[str]
    left_out: Sequence[Mapping[str, str]]


@page("/agents/{agent}/documents/health", nav="Index", within="Documents", order=20)
def index_page(request: PageRequest) -> Response:
    """The health of the index."""
    return _index_shown(request, DONE.get(request.query.get("done", ""), ""))


def _index_shown(request: PageRequest, done: str = "", error: MemtapeError | None = None) -> Response:
    return request.show(
        "documents_health.html", error_report(error).status if error else 200, indexes=_index_views(request), done=done,
        health_problem=str(error) if error else "",
    )  # fmt: skip


def _index_views(request: PageRequest) -> list[IndexView]:
    """The index of the agent's own documents, and that of the shared ones if there are any."""
    health = row_fields(request.ask(index_health, OfAgent(agent=request.agent.id)))
    views = [_index_view("its own", health)]
    if health["shared"]["roots"]:
        views.append(_index_view("shared with all agents", health["shared"]))
    return views


def _index_view(whose: str, health: Mapping[str, Any]) -> IndexView:
    seconds, whole_index = health["stale_seconds"], {SYNC_PROBLEM, WATCH_PROBLEM, *health["roots"]}
    troubles = [one for one in health["problems"] if one["path"] in whole_index]
    return IndexView(
        whose=whose, health=health, age=None if seconds is None else age_phrase(seconds / 86400),
        models=list(model_coverage(health)),
        warnings=[text for text in (stale_warning(health), *map(_trouble_text, troubles)) if text],
        left_out=[one for one in health["problems"] if one not in troubles],
    )  # fmt: skip


def _trouble_text(one: Mapping[str, str]) -> str:
    where = {SYNC_PROBLEM: "The last sync", WATCH_PROBLEM: "Watching the folders"}.get(one["path"], one["path"])
    return f"{where}: {one['problem']}."


def model_coverage(health: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The embedding models, each with how many passages have its vectors.

    >>> covered = {"model": "static-256", "have": 40, "of": 52, "answers": False}
    >>> list(model_coverage({"coverage": [covered]}))
    [('static-256', '40 of 52 passages, not complete yet')]
    """
    for one in health["coverage"]:
        passages = f"{one['have']:,} of {one['of']:,} passages"
        yield one["model"], passages if one["answers"] else f"{passages}, not complete yet"


def stale_warning(health: Mapping[str, Any]) -> str:
    """Why a search may miss the latest changes; empty if the index is fresh.

    >>> stale_warning({"roots": ["/desk"], "last_sync": None, "stale_seconds": None})
    'The index was never synced with the files: a search finds nothing yet.'
    >>> synced = {"roots": ["/desk"], "last_sync": "2026-05-12T08:00:00Z"}
    >>> stale_warning({**synced, "stale_seconds": 3 * 86400.0, "pending": None})
    'Last synced with the files 3 days ago: a search does not find later changes.'
    >>> stale_warning({**synced, "stale_seconds": 60.0, "pending": None})
    ''
    >>> stale_warning({**synced, "stale_seconds": 60.0, "pending": {"added": 2, "changed": 0, "removed": 1}})
    'The files differ from the index: 2 added, 1 removed. A search does not find these changes yet.'
    """
    if not health["roots"]:
        return ""
    if health["last_sync"] is None:
        return "The index was never synced with the files: a search finds nothing yet."
    if pending := health["pending"]:
        changes = ", ".join(f"{n} {change}" for change, n in pending.items() if n)
        return f"The files differ from the index: {changes}. A search does not find these changes yet." if changes else ""
    if health["stale_seconds"] <= FRESH_SECONDS:
        return ""
    return f"Last synced with the files {age_phrase(health['stale_seconds'] / 86400)}: a search does not find later changes."


@form("/agents/{agent}/documents/reindex", within="Documents")
def reindex_form(request: PageRequest) -> Response:
    """Syncs the indexes with the files."""
    agent = request.agent.id
    try:
        request.ask(reindex_documents, Reindex(agent=agent))
        if row_fields(request.ask(index_health, OfAgent(agent=agent)))["shared"]["roots"]:
            request.ask(reindex_documents, Reindex(agent=agent, shared=True))
    except (Conflict, Invalid) as error:
        return _index_shown(request, error=error)
    return RedirectResponse(f"{request.agent_path}/documents/health?done=reindexed", 303)
