"""The pages of an agent's briefs: the brief at any moment, to the byte, and every brief that it was shown.

    /agents/{agent}/sees                 the brief, the source of each line, the tokens of its parts, what memory adds
    /agents/{agent}/sees/text            its bytes alone
    /agents/{agent}/sees/shown/{id}      one that was shown, as it was stored, and whether it can be reproduced

htmx gets only the brief. Looking at a page changes nothing: only `record_shown` records that a brief was shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from starlette.responses import PlainTextResponse, Response

from memtape.core.codec import digest
from memtape.errors import Conflict, Invalid, MemtapeError, Unknown
from memtape.surfaces.operations.briefs import (
    BriefAnswer,
    GetBrief,
    ListShown,
    PreviewBrief,
    ShownBrief,
    get_brief,
    get_shown_brief,
    list_shown_briefs,
    preview_brief,
)
from memtape.surfaces.translate import error_report
from memtape.surfaces.web.brief_lines import brief_text_lines, diff_lines
from memtape.surfaces.web.charts import brief_token_bar
from memtape.surfaces.web.forms import read_question, whole_number
from memtape.surfaces.web.register import page
from memtape.surfaces.web.site import HEADERS, PageRequest
from memtape.surfaces.web.trades import AgentTrades

SHOWN_LISTED = 50
SHOWN_SEARCHED = 1000
VIEWS: Mapping[str, str] = {"with": "with memory", "without": "without memory", "difference": "what memory adds"}
QUESTION_FIELDS = ("as_of", "head", "owner_head", "symbol", "strategy", "thesis", "budget", "without_memory")


@dataclass(frozen=True, slots=True)
class BriefForm:
    """The form of the page, as text; times are in UTC."""

    as_of: str = ""
    head: str = ""
    symbol: str = ""
    budget: str = ""
    view: str = "with"

    @classmethod
    def read(cls, query: Mapping[str, str]) -> BriefForm:
        """From an address.

        >>> BriefForm.read({"as_of": "2026-06-04T08:00", "view": "sideways"})
        BriefForm(as_of='2026-06-04T08:00', head='', symbol='', budget='', view='with')
        """
        given = {field.name: query[field.name].strip() for field in fields(cls) if field.name in query}
        return cls(**{name: text for name, text in given.items() if text and (name != "view" or text in VIEWS)})

    def question_fields(self) -> dict[str, Any]:
        """The fields of the question to `get_brief`. A time without a zone is UTC, as the form states.

        >>> BriefForm(as_of="2026-06-04T08:00", head="12").question_fields()
        {'as_of': '2026-06-04T08:00Z', 'head': 12}
        """
        values: dict[str, Any] = {"as_of": _with_zone(self.as_of), "symbol": self.symbol}
        values |= {name: whole_number(name, getattr(self, name)) for name in ("head", "budget")}
        return {name: value for name, value in values.items() if value not in (None, "")}

    @property
    def picked(self) -> str:
        """The moment as the browser's date picker takes it: to the second, without a zone."""
        return self.as_of[:19].rstrip("Z")


def _with_zone(time: str) -> str:
    bare = bool(time) and not time.endswith(("Z", "z")) and "+" not in time and "-" not in time[10:]
    return f"{time}Z" if bare else time


# ---- the brief -----------------------------------------------------------------------------------------------------------


@page("/agents/{agent}/sees", nav="What it sees", order=10)
def brief_page(request: PageRequest) -> Response:
    """The brief at a moment: with memory, without it, or what memory adds."""
    form = BriefForm.read(request.query)
    template = "brief_text.html" if request.partial else "brief.html"
    around: dict[str, Any] = {"form": form, "views": VIEWS, "query": request.http.url.query}
    if not request.partial:
        around["symbols"] = sorted(AgentTrades(request.site, request.agent.id).names().symbols)
        around["past"] = request.ask(list_shown_briefs, ListShown(agent=request.agent.id, limit=SHOWN_LISTED)).shown
    try:
        return request.show(template, **around, **_brief_shown(request, form), problem="")
    except (Conflict, Invalid, Unknown) as error:
        return request.show(template, error_report(error).status, **around, brief=None, problem=str(error))


def _brief_shown(request: PageRequest, form: BriefForm) -> dict[str, Any]:
    agent, given = request.agent.id, form.question_fields()
    brief = request.ask(preview_brief, read_question(PreviewBrief, agent=agent, **given, without_memory=form.view == "without"))
    lines = brief_text_lines(brief, request.agent_path)
    bare = None
    if form.view == "difference":
        bare = request.ask(preview_brief, read_question(PreviewBrief, agent=agent, **given, without_memory=True))
        lines = diff_lines(bare.text, brief.text)
    return {"brief": brief, "bare": bare, "tokens": brief_token_bar(brief), "lines": lines}


@page("/agents/{agent}/sees/text", within="What it sees")
def brief_text_page(request: PageRequest) -> Response:
    """The brief itself, and nothing else."""
    form = BriefForm.read(request.query)
    given = {**form.question_fields(), "without_memory": form.view == "without"}
    brief = request.ask(get_brief, read_question(GetBrief, agent=request.agent.id, **given))
    return PlainTextResponse(brief.text, headers={**HEADERS, "etag": f'"{brief.digest}"'})


# ---- briefs that were shown ----------------------------------------------------------------------------------------------


@page("/agents/{agent}/sees/shown/{id}", within="What it sees")
def shown_brief_page(request: PageRequest) -> Response:
    """A brief as the agent read it, and whether its record still gives the same bytes."""
    agent, id_ = request.agent.id, request.value("id")
    every = request.ask(list_shown_briefs, ListShown(agent=agent, limit=SHOWN_SEARCHED)).shown
    record = next((one for one in every if one.id == id_), None)
    if record is None:
        raise Unknown("brief", "shown brief", id_, f"Choose one from the briefs that '{agent}' was shown")
    stored = request.ask(get_shown_brief, ShownBrief(agent=agent, digest=record.digest)).text
    made, problem = _reproduced(request, record.model_dump())
    same = made is not None and made.digest == record.digest and made.text == stored
    if made is not None and same:
        lines = brief_text_lines(made, request.agent_path)
    else:
        lines = diff_lines(stored, made.text if made else stored)
    return request.show(
        "shown_brief.html", record=record, made=made, same=same, problem=problem, lines=lines,
        intact=digest(stored) == record.digest, differs=made is not None and not same,
    )  # fmt: skip


def _reproduced(request: PageRequest, record: Mapping[str, Any]) -> tuple[BriefAnswer | None, str]:
    """The brief that the recorded question gives today for the same moment and log row, or why there is none."""
    recorded = {name: record[name] for name in QUESTION_FIELDS if record.get(name) is not None}
    if record.get("situation"):
        recorded["context"] = record["situation"]
    try:
        return request.ask(get_brief, read_question(GetBrief, agent=request.agent.id, **recorded)), ""
    except MemtapeError as error:
        # What the brief was made of was erased since, or cannot be read. The page states that.
        return None, str(error)
