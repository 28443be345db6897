"""Pages register themselves: a new page is one module and its template."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest

from memtape.surfaces.web import pages
from memtape.surfaces.web.register import ENTRIES, PageEntry, all_pages, navigation_of, page


def test_every_page_module_registers_a_page() -> None:
    registered = {entry.answer.__module__ for entry in all_pages() if entry.kind == "page"}
    assert registered == {f"{pages.__name__}.{module.name}" for module in iter_modules(pages.__path__)}


def test_the_navigation_follows_the_order_that_pages_state() -> None:
    found = navigation_of(all_pages())
    names = [link.name for link in found.first]
    assert (
        names[:4] == ["Overview", "Runs", "Chat", "What it sees"]
        and names[-2:] == ["Documents", "Proposals"]
        and len(names) == 12
    )
    assert {name: [link.name for link in links] for name, links in found.below.items()} == {
        "Overview": ["Overview", "Performance", "Losses"],
        "Documents": ["Documents", "Rules", "Its own notes", "Reports", "Index"],
    }  # fmt: skip


def test_a_page_belongs_to_a_section_that_the_navigation_lists() -> None:
    names = {link.name for link in navigation_of(all_pages()).first}
    assert {entry.section for entry in all_pages() if entry.section} == names


def test_a_new_page_appears_in_the_navigation_and_an_address_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in iter_modules(pages.__path__):
        import_module(f"{pages.__name__}.{module.name}")
    monkeypatch.setattr("memtape.surfaces.web.register.ENTRIES", dict(ENTRIES))
    enter = page("/agents/{agent}/cards", nav="Cards", order=35)
    enter(lambda request: None)  # type: ignore[arg-type,return-value]
    names = [link.name for link in navigation_of(all_pages()).first]
    assert names.index("Cards") == names.index("Memory") + 1
    with pytest.raises(TypeError, match="registered twice"):
        enter(lambda request: None)  # type: ignore[arg-type,return-value]


def test_the_badge_of_a_link_comes_from_its_page() -> None:
    entry = PageEntry("/agents/{agent}/cards", lambda request: None, "page", "Cards", badge=lambda site, agent: 3)  # type: ignore
    (link,) = navigation_of([entry]).first
    assert link.badge is not None and link.badge(None, "desk") == 3 and link.ending == "/cards"  # type: ignore[arg-type]
