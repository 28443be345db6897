"""A link reaches the heading that it names, and the glossary can be searched by eye."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import BLOCK, PAGES, ROOT, named

LINKING = [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]
LINK_TO_HEADING = re.compile(r"\]\((?!https?://)([^)#\s]*)#([^)\s]+)\)")
TERM = re.compile(r"^\*\*(.+?)\.\*\*", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The names by which the headings of a page are linked, as GitHub makes them."""
    text = re.sub(BLOCK, "", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings} | set(
        re.findall(r'<a id="([^"]+)">', text)
    )


@pytest.mark.parametrize("page", LINKING, ids=named)
def test_a_link_to_a_heading_finds_it(page: Path) -> None:
    links = LINK_TO_HEADING.findall(re.sub(BLOCK, "", page.read_text(encoding="utf-8")))
    assert [f"{file}#{name}" for file, name in links if name not in anchors(page.parent / file if file else page)] == []


def test_the_glossary_has_each_term_once_in_alphabetical_order() -> None:
    terms = [
        re.sub(r"[^a-z]", "", term.lower()) for term in TERM.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    ]
    assert len(terms) > 90
    assert terms == sorted(set(terms))
