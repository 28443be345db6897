"""How a page is answered: it asks operations, fills a template, and is sent under a strict content policy.

A page runs in a worker thread and changes nothing. A button writes by a form, and a form is accepted only from a page of
ours: every browser states the origin of a form. An error is answered as a page too, with the status that it has over HTTP.

>>> own_page("http://127.0.0.1:8765", "127.0.0.1:8765"), own_page("https://elsewhere.example", "127.0.0.1:8765")
(True, False)
>>> own_page(None, "127.0.0.1:8765"), own_page("null", "127.0.0.1:8765")
(False, False)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import anyio
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from memtape.engine.proof.projection_health import StoreHealth
from memtape.errors import Conflict, Invalid, MemtapeError, Unknown
from memtape.surfaces.caller import Caller
from memtape.surfaces.operations.agents import AgentAnswer, ShowAgent, show_agent
from memtape.surfaces.translate import error_report
from memtape.surfaces.web import display, words
from memtape.surfaces.web.background import BackgroundRuns, UnfinishedAnswers
from memtape.surfaces.web.forms import form_fields, read_question
from memtape.surfaces.web.register import NavLink, PageEntry, all_pages, navigation_of

if TYPE_CHECKING:
    from memtape.core.skills import AgentSettings
    from memtape.engine import Memory

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "vary": "HX-Request-Type",
    # With no-referrer a browser would send our own forms without their Origin.
    "referrer-policy": "same-origin",
}
WORKER_THREADS = 8
OWNER = Caller("owner", over_network=True)

Endpoint = Callable[[Request], Awaitable[Response]]
Question = TypeVar("Question", bound=BaseModel)
Reply = TypeVar("Reply", bound=BaseModel)
Value = TypeVar("Value")
OperationFunction: TypeAlias = "Callable[[Memory, Question, Caller], Reply]"


class Site:
    """What all pages of one memory share: templates, navigation, and the one place that calls operations."""

    def __init__(self, memory: Memory, health: StoreHealth | None = None) -> None:
        self.memory, self.health = memory, health or StoreHealth(memory)
        self.background = BackgroundRuns(memory)
        self.unfinished_answers = UnfinishedAnswers()
        self._threads = anyio.CapacityLimiter(WORKER_THREADS)
        self._computed: dict[tuple[str, str], tuple[str, object]] = {}
        self._templates = Environment(
            loader=PackageLoader("memtape.surfaces.web"), autoescape=True, undefined=StrictUndefined,
            finalize=display.show_value, trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._templates.filters |= {**display.FILTERS, **words.FILTERS}
        self._templates.globals |= {**display.LABELS, **words.LABELS}
        self._templates.globals |= {"navigation": navigation_of(all_pages()), "badge": self._badge}

    # ---- reading --------------------------------------------------------------------------------------------------

    def ask(self, operation: OperationFunction[Question, Reply], question: Question) -> Reply:
        """Returns the answer of an operation. All pages call operations here, as the owner."""
        return operation(self.memory, question, OWNER)

    def by_log(self, agent: str, compute: Callable[[Site, str], Value]) -> Value:
        """Returns `compute(self, agent)`, computed again only when the agent's log has grown since the last call."""
        head = self.memory.agent(agent).head().hash
        key = (agent, compute.__qualname__)
        computed_at, value = self._computed.get(key, ("", None))
        if computed_at != head:
            value = compute(self, agent)
            self._computed[key] = (head, value)
        return cast("Value", value)

    def _badge(self, link: NavLink, agent: str) -> int:
        """The count beside a name of the navigation; 0: none is shown."""
        return link.badge(self, agent) if link.badge is not None else 0

    # ---- answering ------------------------------------------------------------------------------------------------

    def render(self, template: str, status: int = 200, /, **values: Any) -> Response:
        """A page, or a part of one."""
        return HTMLResponse(self._templates.get_template(template).render(**values), status, HEADERS)

    def render_error(self, error: MemtapeError) -> Response:
        """A page that states what is wrong."""
        report = error_report(error)
        return self.render("error.html", report.status, title=report.title, problem=str(error))

    def endpoint(self, entry: PageEntry) -> Endpoint:
        """The endpoint of a registered address."""
        if entry.kind == "form":
            return self._form_endpoint(entry)

        async def answer(http: Request) -> Response:
            return await self._run(entry, http, {})

        return answer

    def _form_endpoint(self, entry: PageEntry) -> Endpoint:
        async def answer(http: Request) -> Response:
            if not own_page(http.headers.get("origin"), http.headers.get("host", "")):
                problem = "This form can only be sent from a page of memtape. Open the page and press its button."
                return self.render("error.html", 403, title="Forbidden", problem=problem)
            return await self._run(entry, http, form_fields(await http.body()))

        return answer

    async def _run(self, entry: PageEntry, http: Request, form: Mapping[str, str]) -> Response:
        request = PageRequest(self, entry, http, form)
        # The app answers an error of a chart's data as a problem object; an error of a page is a page.
        run = entry.answer if entry.kind == "data" else self._answer_or_error
        return await anyio.to_thread.run_sync(run, request, limiter=self._threads)

    def _answer_or_error(self, request: PageRequest) -> Response:
        try:
            try:
                return request.entry.answer(request)
            except (Conflict, Invalid, Unknown) as error:
                if request.entry.on_error is None:
                    raise
                return request.entry.on_error(request, error)
        except MemtapeError as error:
            return self.render_error(error)


class PageRequest:
    """One request for a page: the address with its values, the fields of a form, and the way to ask and to answer."""

    def __init__(self, site: Site, entry: PageEntry, http: Request, form: Mapping[str, str]) -> None:
        self.site, self.entry, self.http, self.form = site, entry, http, form

    @property
    def query(self) -> Mapping[str, str]:
        """The values after the question mark of the address."""
        return self.http.query_params

    @property
    def partial(self) -> bool:
        """True if htmx asks only for the part of the page that a form changes."""
        return self.http.headers.get("hx-request-type") == "partial"

    def value(self, name: str) -> str:
        """A value that is part of the address, like the id of a trade."""
        return str(self.http.path_params[name])

    @cached_property
    def agent(self) -> AgentAnswer:
        """The agent that the address names."""
        id_ = self.value("agent")
        try:
            return self.ask(show_agent, read_question(ShowAgent, id=id_))
        except (Invalid, Unknown):
            # Invalid: no agent can have such a name.
            raise Unknown("agent", "agent", id_, "Choose one from the list of agents") from None

    @property
    def currency(self) -> str:
        """The account currency of the agent."""
        # The row has the fields of the settings that it mirrors.
        return cast("AgentSettings", self.agent.settings).currency

    @property
    def agent_path(self) -> str:
        """The address of the agent's first page; its other pages begin with it."""
        return f"/agents/{self.agent.id}"

    def ask(self, operation: OperationFunction[Question, Reply], question: Question) -> Reply:
        """Returns the answer of an operation."""
        return self.site.ask(operation, question)

    def show(self, template: str, status: int = 200, /, **values: Any) -> Response:
        """A page, or a part of one. Templates below the address of an agent get `agent`, its `path` and the open page."""
        if "agent" in self.http.path_params:
            values = {"agent": self.agent, "path": self.agent_path, "here": self.entry, **values}
        return self.site.render(template, status, **values)


def own_page(origin: str | None, host: str) -> bool:
    """Returns True if a form comes from a page of ours: its Origin is the host that it is sent to."""
    return origin is not None and origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")
