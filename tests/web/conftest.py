"""A trading floor to look at, its pages served on a free port, and visitors who notice everything that goes wrong."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from memtape.engine import Memory
from memtape.surfaces.http import build_app, listen
from memtape.surfaces.web import add_pages
from tests import chromium
from tests.web.floor import furnished

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WATCH = """
document.addEventListener("securitypolicyviolation", (seen) =>
  console.error("policy violated: " + seen.violatedDirective + " " + seen.blockedURI + " " + seen.sample));
"""


@contextmanager
def served(memory: Memory) -> Iterator[str]:
    """The address of a memory's pages, served from a thread."""
    listener = listen(port=0)
    app = build_app(memory, mcp=False, web=partial(add_pages, memory=memory))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while not server.started:
            assert thread.is_alive() and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.02)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="session")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """Three agents: one that simulates, one with troubles, one that has not begun."""
    with furnished(tmp_path_factory.mktemp("web") / "floor.db") as memory:
        yield memory


@pytest.fixture(scope="session")
def address(floor: Memory) -> Iterator[str]:
    with served(floor) as at:
        yield at


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        import playwright  # noqa: F401
    except ImportError:
        _without("playwright")
    if chromium.find() is None:
        _without("chromium")
    with chromium.browser() as opened:
        yield opened


def _without(what: str) -> None:
    say = pytest.fail if os.environ.get("CI") else pytest.skip
    say(f"the pages cannot be looked at without {what}: run make test, or apt-get install chromium")


@dataclass
class Visit:
    """A page somebody looks at, and all that was amiss with it."""

    page: Page
    address: str
    amiss: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self._note("error", str(error)))
        self.page.on("request", lambda sent: self._sent(sent.url))
        self.page.on("requestfailed", lambda sent: self._failed(sent.url, sent.failure or ""))

    def _failed(self, url: str, why: str) -> None:
        if "net::ERR_ABORTED" not in why:  # going to the next page cuts short what the last one still asked for
            self._note("error", f"failed: {url} {why}")

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(words in text for words in self.expected):
            self.amiss.append(f"{kind}: {text}")

    def _sent(self, url: str) -> None:
        if not url.startswith((self.address, "data:")):
            self.amiss.append(f"request to another host: {url}")

    def at(self, path: str) -> Page:
        self.page.goto(self.address + path)
        return self.page

    def text(self, selector: str) -> str:
        return " ".join(self.page.locator(selector).inner_text().split())

    def drawn(self) -> None:
        """Wait until the charts are there."""
        self.page.wait_for_selector("[data-drawn] canvas")


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Callable[..., Visit]]:
    """Opens a page; when the test is over, nothing may have been amiss."""
    visits: list[Visit] = []
    contexts = []

    def come(
        *, width: int = 1280, height: int = 900, dark: bool = False, scripts: bool = True, at: str = address,
        expected: tuple[str, ...] = (),
    ) -> Visit:  # fmt: skip
        about: dict[str, Any] = {"viewport": {"width": width, "height": height}, "color_scheme": "dark" if dark else "light"}
        context = browser.new_context(**about, java_script_enabled=scripts)
        context.set_default_timeout(15_000)
        context.add_init_script(WATCH)
        contexts.append(context)
        visits.append(Visit(context.new_page(), at, expected=expected))
        return visits[-1]

    yield come
    for context in contexts:
        context.close()
    assert [problem for each in visits for problem in each.amiss] == []
