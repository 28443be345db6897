"""How a page is answered: an operation is asked, a template filled, and the answer sent under a strict policy.

A page runs in a worker thread and changes nothing. What a button writes goes by the one road of `Desk.writing`: a form of
our own page, told by the Origin that every browser puts on a form, and an operation like any other. What is wrong is said
in a page too, with the status that the same error has over HTTP.

>>> own_page("http://127.0.0.1:8765", "127.0.0.1:8765"), own_page("https://elsewhere.example", "127.0.0.1:8765")
(True, False)
>>> own_page(None, "127.0.0.1:8765"), own_page("null", "127.0.0.1:8765")
(False, False)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import anyio
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from memtape.errors import Invalid, MemtapeError, Unknown
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform
from memtape.surfaces.translate import error_report
from memtape.surfaces.web import display, words

if TYPE_CHECKING:
    from memtape.engine import Memory

SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": SECURITY,
    "vary": "HX-Request-Type",
    "referrer-policy": "same-origin",  # under no-referrer a browser would send our own forms without their Origin
}
FORM_FIELDS = 16

View = Callable[[Request], Response]
Writes = Callable[[Request, Mapping[str, str]], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


class Desk:
    """What all pages of one memory share."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._threads = anyio.CapacityLimiter(8)
        self._waiting: dict[str, tuple[str, int]] = {}
        self._templates = Environment(
            loader=PackageLoader("memtape.surfaces.web"), autoescape=True, undefined=StrictUndefined,
            finalize=display.visible, trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._templates.filters |= {
            "amount": display.show_amount,
            "signed": display.show_signed,
            "tone": display.gain_or_loss,
            "price": display.show_price,
            "percent": display.show_percent,
            "when": display.show_time,
            "lasting": display.show_duration,
            "frame": display.show_frame,
            "ending": display.show_ending,
            "digits": display.show_digits,
            "label": display.show_label,
            "condition": words.condition_text,
            "action": words.action_text,
            "situated": words.situation_text,
        }
        self._templates.globals |= {
            "modes": display.MODES,
            "qualities": display.QUALITY,
            "methods": display.EXCURSIONS,
            "tiers": display.TIERS,
            "statuses": words.STATUSES,
            "outcomes_known": words.OUTCOMES,
            "factor_names": words.FACTORS,
            "slots": words.SLOTS,
            "lesson_statuses": words.LESSONS,
            "asked_by": words.ASKED_BY,
            "measured": words.lesson_unit,
            "teaching": words.TEACHING,
            "segment_names": words.SEGMENTS,
            "waiting": self.waiting,
        }

    # ---- asking ---------------------------------------------------------------------------------------------------

    def ask(self, operation: str, agent: str | None = None, **asked: Any) -> dict[str, Any]:
        """What an operation answers."""
        return perform(self.memory, find(operation), asked, Caller("owner", agent))

    def agent(self, request: Request) -> dict[str, Any]:
        """The agent that an address names."""
        id_ = request.path_params["agent"]
        try:
            return self.ask("show_agent", id=id_)
        except (Invalid, Unknown):  # Invalid: not a name that an agent can have
            raise Unknown("agent", "agent", id_, "Choose one from the list of agents") from None

    def waiting(self, agent: str) -> int:
        """How many proposals of an agent wait for the owner's word; it follows from its log, so it is kept until that grows."""
        head = self.memory.agent(agent).head().hash
        kept, n = self._waiting.get(agent, ("", 0))
        if kept != head:
            n = self.memory.agent(agent).proposals.count("proposed")
            self._waiting[agent] = (head, n)
        return n

    # ---- answering ------------------------------------------------------------------------------------------------

    def show(self, template: str, status: int = 200, /, **shown: Any) -> Response:
        """A page, or a part of one."""
        return HTMLResponse(self._templates.get_template(template).render(**shown), status, HEADERS)

    def wrong(self, error: MemtapeError) -> Response:
        """A page that says what is wrong."""
        found = error_report(error)
        return self.show("error.html", found.status, title=found.title, problem=str(error))

    def page(self, view: View) -> Endpoint:
        """The endpoint of a page."""

        async def answer(request: Request) -> Response:
            try:
                return await anyio.to_thread.run_sync(view, request, limiter=self._threads)
            except MemtapeError as error:
                return self.wrong(error)

        return answer

    def data(self, view: View) -> Endpoint:
        """The endpoint of a chart's data; its errors are answered as problems, by the app."""

        async def answer(request: Request) -> Response:
            return await anyio.to_thread.run_sync(view, request, limiter=self._threads)

        return answer

    def writing(self, view: Writes) -> Endpoint:
        """The endpoint of a form that writes; only our own pages may send it."""

        async def answer(request: Request) -> Response:
            if not own_page(request.headers.get("origin"), request.headers.get("host", "")):
                problem = "Only a page of memtape's own may send this form. Open the page and press its button"
                return self.show("error.html", 403, title="Forbidden", problem=problem)
            form = fields(await request.body())
            return await self.page(lambda asked: view(asked, form))(request)

        return answer


def own_page(origin: str | None, host: str) -> bool:
    """Whether a form comes from a page of ours: its Origin is the very host that it is sent to."""
    return origin is not None and origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def only_a_part(request: Request) -> bool:
    """Whether only a part of the page is asked for, to be put in place by htmx."""
    return request.headers.get("hx-request-type") == "partial"


def fields(body: bytes) -> dict[str, str]:
    """The fields of a form; one that is no form, or far too long, has none.

    >>> fields(b"plan_id=half+size&why=")
    {'plan_id': 'half size', 'why': ''}
    >>> fields(b"&".join([b"a=1"] * 99))
    {}
    """
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS))
    except ValueError:
        return {}
