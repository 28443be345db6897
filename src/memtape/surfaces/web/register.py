"""The register of pages: every module in `pages/` enters its own addresses, with their place in the navigation.

    @page("/agents/{agent}/lessons", nav="Lessons", order=30)
    def lessons_page(request: PageRequest) -> Response: ...

    @form("/agents/{agent}/lessons/reflect", within="Lessons", on_error=lessons_with_problem)
    def reflect_form(request: PageRequest) -> Response: ...

A new page is one new module in `pages/` and its template: `all_pages` imports the whole folder, so no list has to be extended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from starlette.responses import Response

    from memtape.errors import MemtapeError
    from memtape.surfaces.web.site import PageRequest, Site

    PageFunction = Callable[[PageRequest], Response]
    ErrorFunction = Callable[[PageRequest, MemtapeError], Response]
    BadgeFunction = Callable[[Site, str], int]

PAGES = "memtape.surfaces.web.pages"


@dataclass(frozen=True, slots=True)
class PageEntry:
    """One address: the function that answers it, and its place in the navigation of an agent."""

    address: str
    answer: PageFunction
    kind: Literal["page", "form", "data"]
    nav: str = ""  # its name in the navigation; empty: the navigation does not list it
    within: str = ""  # the nav name of the page that it belongs to
    order: int = 0  # smaller comes first
    badge: BadgeFunction | None = None  # a count beside the name, for an agent
    on_error: ErrorFunction | None = None  # what a form answers instead of the page of errors

    @property
    def section(self) -> str:
        """The name that the navigation marks as current while this page is open."""
        return self.within or self.nav


ENTRIES: dict[str, PageEntry] = {}


def page(
    address: str, *, nav: str = "", within: str = "", order: int = 0, badge: BadgeFunction | None = None
) -> Callable[[PageFunction], PageFunction]:
    """Enters a function as the page of an address. With `nav` the navigation lists it: in the first row, or below `within`."""
    return lambda function: _enter(PageEntry(address, function, "page", nav, within, order, badge))


def form(address: str, *, within: str = "", on_error: ErrorFunction | None = None) -> Callable[[PageFunction], PageFunction]:
    """Enters a function as the target of a form that writes. `on_error` answers instead of the page of errors."""
    return lambda function: _enter(PageEntry(address, function, "form", within=within, on_error=on_error))


def data(address: str) -> Callable[[PageFunction], PageFunction]:
    """Enters a function as the JSON data of a chart."""
    return lambda function: _enter(PageEntry(address, function, "data"))


def _enter(entry: PageEntry) -> PageFunction:
    if entry.address in ENTRIES:
        raise TypeError(f"the address {entry.address} is registered twice")
    ENTRIES[entry.address] = entry
    return entry.answer


def all_pages() -> Sequence[PageEntry]:
    """Every registered address; imports each module of `pages/` first."""
    for module in iter_modules(import_module(PAGES).__path__):
        import_module(f"{PAGES}.{module.name}")
    return list(ENTRIES.values())


@dataclass(frozen=True, slots=True)
class NavLink:
    """A link of the navigation; `ending` is what follows the address of the agent."""

    name: str
    ending: str
    badge: BadgeFunction | None


@dataclass(frozen=True, slots=True)
class Navigation:
    """The pages of an agent: the first row, and the rows below some of its names."""

    first: Sequence[NavLink]
    below: Mapping[str, Sequence[NavLink]]


def navigation_of(entries: Sequence[PageEntry]) -> Navigation:
    """The navigation that registered pages make.

    >>> def answer(request): ...
    >>> docs, health = "/agents/{agent}/documents", "/agents/{agent}/documents/health"
    >>> found = navigation_of([PageEntry(health, answer, "page", "Index", "Documents", 20),
    ...     PageEntry(docs, answer, "page", "Documents", order=90), PageEntry("/agents/{agent}", answer, "page", "Overview")])
    >>> [link.name for link in found.first], [link.ending for link in found.below["Documents"]]
    (['Overview', 'Documents'], ['/documents', '/documents/health'])
    """
    listed = sorted((entry for entry in entries if entry.nav), key=lambda entry: (entry.order, entry.nav))
    first = [entry for entry in listed if not entry.within]
    below = {
        top.nav: [_link(top), *(_link(entry) for entry in listed if entry.within == top.nav)]
        for top in first
        if any(entry.within == top.nav for entry in listed)
    }
    return Navigation([_link(entry) for entry in first], below)


def _link(entry: PageEntry) -> NavLink:
    return NavLink(entry.nav, entry.address.removeprefix("/agents/{agent}"), entry.badge)
