"""The pages: agents, one agent, one trade. Made on the server from the operations; `add_pages` puts them on an app."""

from __future__ import annotations

from memtape.surfaces.web.pages import add_pages

__all__ = ["add_pages"]
