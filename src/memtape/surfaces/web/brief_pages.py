"""What the agent sees: the brief at any moment, to the byte, and every brief that it was shown.

    /agents/{agent}/sees                the brief, what each line rests on, what its parts weigh, what memory adds to it
    /agents/{agent}/sees/text           its very bytes
    /agents/{agent}/sees/shown/{id}     one that was shown, as it was stored, and whether it is made again the same

Asked for by htmx, the address gives only what the form changes. Looking changes nothing: only `record_shown` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from memtape.core.codec import digest
from memtape.errors import Conflict, Invalid, MemtapeError, Unknown
from memtape.surfaces.translate import error_report
from memtape.surfaces.web import brief_lines
from memtape.surfaces.web.desk import HEADERS, Desk, only_a_part
from memtape.surfaces.web.memory_pages import traded

RECENT, FOUND = 50, 1000  # briefs that were shown: listed, and looked through
QUESTION = ("as_of", "head", "owner_head", "symbol", "strategy", "thesis", "budget", "without_memory")


class BriefPages:
    """The briefs of the agents of one memory."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._ask = desk, desk.ask

    def routes(self) -> list[BaseRoute]:
        """Every address."""
        path = "/agents/{agent}/sees"
        return [
            Route(path, self._desk.page(self.sees)),
            Route(f"{path}/text", self._desk.page(self.text)),
            Route(f"{path}/shown/{{id}}", self._desk.page(self.shown)),
        ]

    def sees(self, request: Request) -> Response:
        """The brief at a moment, with memory, without it, or what memory adds."""
        agent = self._desk.agent(request)
        asked = brief_lines.BriefForm.read(request.query_params)
        template = "sees_brief.html" if only_a_part(request) else "sees.html"
        shown: dict[str, Any] = {
            "agent": agent, "path": _path(agent), "asked": asked, "views": brief_lines.VIEWS, "query": request.url.query,
            "symbols": sorted(traded(self._desk, agent["id"]).symbols),
        }  # fmt: skip
        if not only_a_part(request):
            shown["past"] = self._ask("list_shown_briefs", agent["id"], limit=RECENT)["shown"]
        try:
            return self._desk.show(template, **shown, **self._brief(agent, asked), problem="")
        except (Conflict, Invalid, Unknown) as error:
            return self._desk.show(template, error_report(error).status, **shown, brief=None, problem=str(error))

    def _brief(self, agent: Mapping[str, Any], asked: brief_lines.BriefForm) -> dict[str, Any]:
        question = asked.asking()
        brief = self._ask("preview_brief", agent["id"], **question, without_memory=asked.view == "without")
        lines = brief_lines.brief_text_lines(brief, _path(agent))
        shown: dict[str, Any] = {"brief": brief, "bare": None, "weight": brief_lines.token_bar(brief), "lines": lines}
        if asked.view == "difference":
            bare = self._ask("preview_brief", agent["id"], **question, without_memory=True)
            shown |= {"lines": brief_lines.diff_lines(bare["text"], brief["text"]), "bare": bare}
        return shown

    def text(self, request: Request) -> Response:
        """The brief itself, and nothing else."""
        agent = self._desk.agent(request)
        asked = brief_lines.BriefForm.read(request.query_params)
        brief = self._ask("get_brief", agent["id"], **asked.asking(), without_memory=asked.view == "without")
        return PlainTextResponse(brief["text"], headers={**HEADERS, "etag": f'"{brief["digest"]}"'})

    # ---- what was shown -------------------------------------------------------------------------------------------

    def shown(self, request: Request) -> Response:
        """A brief as the agent read it, and whether the record still makes the same bytes."""
        agent, id_ = self._desk.agent(request), request.path_params["id"]
        every = self._ask("list_shown_briefs", agent["id"], limit=FOUND)["shown"]
        record = next((one for one in every if one["id"] == id_), None)
        if record is None:
            raise Unknown("brief", "brief that was shown", id_, f"Choose one from what '{agent['id']}' was shown")
        stored = self._ask("get_shown_brief", agent["id"], digest=record["digest"])["text"]
        made, problem = self._again(agent["id"], record)
        same = made is not None and made["digest"] == record["digest"] and made["text"] == stored
        if made is not None and same:
            told = brief_lines.brief_text_lines(made, _path(agent))
        else:
            told = brief_lines.diff_lines(stored, made["text"] if made else stored)
        return self._desk.show(
            "sees_shown.html", agent=agent, path=_path(agent), record=record, made=made, same=same, problem=problem, lines=told,
            intact=digest(stored) == record["digest"], differs=made is not None and not same,
        )  # fmt: skip

    def _again(self, agent: str, record: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
        """The same question, asked of the record as it stood then."""
        asked = {name: record[name] for name in QUESTION if record.get(name) is not None}
        if record.get("situation"):
            asked["context"] = record["situation"]
        try:
            return self._ask("get_brief", agent, **asked), ""
        except MemtapeError as error:  # what it was made of has been destroyed since, or cannot be read: that is the answer
            return None, str(error)


def _path(agent: Mapping[str, Any]) -> str:
    return f"/agents/{agent['id']}"
