"""A trading floor, its pages served on a free port, and visitors who notice everything that goes wrong.

Playwright's sync API leaves an event loop running in the thread that uses it, and no other test can start a loop of its own
there. So the browser lives in a thread of its own, and a test that visits pages runs in that thread too.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pytest
import uvicorn

from memtape.engine import Memory
from memtape.surfaces.http import build_app, listen
from memtape.surfaces.web import add_pages
from tests import chromium
from tests.web.floor import furnished

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WINDOWS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((1280, "light"), (400, "dark"))
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
def browser_thread() -> Iterator[ThreadPoolExecutor]:
    """The one thread in which the browser is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="browser") as thread:
        yield thread


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Moves a test that uses the browser into the browser's thread."""
    thread: ThreadPoolExecutor | None = pyfuncitem.funcargs.get("browser_thread")
    if thread is not None:
        test = pyfuncitem.obj
        pyfuncitem.obj = lambda **arguments: thread.submit(test, **arguments).result()
    return (yield)


@pytest.fixture(scope="session")
def browser(browser_thread: ThreadPoolExecutor) -> Iterator[Browser]:
    try:
        import playwright  # noqa: F401
    except ImportError:
        _stop_without("playwright")
    if chromium.find() is None:
        _stop_without("chromium")
    opening = chromium.browser()
    yield browser_thread.submit(opening.__enter__).result()
    browser_thread.submit(opening.__exit__, None, None, None).result()


def _stop_without(program: str) -> None:
    stop_test = pytest.fail if os.environ.get("CI") else pytest.skip
    stop_test(f"the pages cannot be tested without {program}: run make test, or apt-get install chromium")


@dataclass
class Visit:
    """A page somebody looks at, and all that was amiss with it."""

    page: Page
    address: str
    amiss: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.listeners: dict[str, Callable[[Any], None]] = {
            "console": lambda message: self._note(message.type, message.text),
            "pageerror": lambda error: self._note("error", str(error)),
            "request": lambda request: self._check_address(request.url),
            "requestfailed": lambda request: self._note_failure(request.url, request.failure or ""),
            "dialog": self._refuse_dialog,
        }
        for event, listener in self.listeners.items():
            self.page.on(event, listener)  # type: ignore[call-overload]

    def _note_failure(self, url: str, why: str) -> None:
        # Going to the next page cuts short what the last one still asked for.
        if "net::ERR_ABORTED" not in why:
            self._note("error", f"failed: {url} {why}")

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(words in text for words in self.expected):
            self.amiss.append(f"{kind}: {text}")

    def _check_address(self, url: str) -> None:
        if not url.startswith((self.address, "data:")):
            self.amiss.append(f"request to another host: {url}")

    def _refuse_dialog(self, dialog: Any) -> None:
        self.amiss.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def at(self, path: str) -> Page:
        self.page.goto(self.address + path)
        return self.page

    def text(self, selector: str) -> str:
        return " ".join(self.page.locator(selector).inner_text().split())

    def drawn(self) -> None:
        """Wait until the charts are there."""
        self.page.wait_for_selector("[data-drawn] canvas")

    def windows(self) -> Iterator[tuple[int, str]]:
        """A wide light window and a narrow dark one, in turn: each with its width and its colours."""
        for width, colours in WINDOWS:
            self.page.set_viewport_size({"width": width, "height": 900})
            self.page.emulate_media(color_scheme=colours)
            yield width, colours

    def leave(self) -> None:
        """Make the page ready for the next visit."""
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)
        self.page.goto("about:blank")


@dataclass
class Pages:
    """Open pages for one visit after another: a new page costs more processor time than most tests."""

    browser: Browser
    idle: dict[bool, list[Page]] = field(default_factory=lambda: {True: [], False: []})  # with scripts, and without

    def open(self, *, width: int, height: int, dark: bool, scripts: bool) -> Page:
        """An idle page, or a new one, with that window."""
        page = self.idle[scripts].pop() if self.idle[scripts] else self._new_page(scripts)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light")
        return page

    def _new_page(self, scripts: bool) -> Page:
        context = self.browser.new_context(java_script_enabled=scripts)
        context.set_default_timeout(15_000)
        context.add_init_script(WATCH)
        return context.new_page()


@pytest.fixture(scope="session")
def pages(browser: Browser) -> Pages:
    return Pages(browser)


@pytest.fixture
def visit(pages: Pages, browser_thread: ThreadPoolExecutor, address: str) -> Iterator[Callable[..., Visit]]:
    """Opens a page; when the test is over, nothing may have been amiss."""
    visits: list[tuple[bool, Visit]] = []

    def come(
        *, width: int = 1280, height: int = 900, dark: bool = False, scripts: bool = True, at: str = address,
        expected: tuple[str, ...] = (),
    ) -> Visit:  # fmt: skip
        here = Visit(pages.open(width=width, height=height, dark=dark, scripts=scripts), at, expected=expected)
        visits.append((scripts, here))
        return here

    yield come
    for scripts, here in visits:
        browser_thread.submit(here.leave).result()
        pages.idle[scripts].append(here.page)
    assert [problem for _, here in visits for problem in here.amiss] == []
