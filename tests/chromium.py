"""The browser that the web tests drive: the machine's own Chromium or Chrome, started by playwright.

Debian's packages are `chromium-headless-shell`, which has no windows and takes less time, and `chromium`; where there is
neither, `.venv/bin/playwright install chromium` brings one. Run as a program, this file prints the browser's path, and ends
with status 1 where there is none.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Not chromium-browser: Ubuntu's only asks for a snap.
NAMES = ("chromium-headless-shell", "chromium", "google-chrome", "google-chrome-stable")

FLAGS = (
    "--no-sandbox",  # root, and most containers, may not have one; the tests open only pages of ours
    "--disable-gpu",
    "--disable-dev-shm-usage",  # a container's /dev/shm is small
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",  # a browser that looks for updates can make a test wait
    "--disable-component-update",
    "--no-first-run",
    "--no-proxy-server",  # the pages are on loopback, whatever the environment says
    "--force-color-profile=srgb",
)


def find() -> str | None:
    """The executable: one on PATH, else the newest that playwright has installed, else None."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache/ms-playwright")
    installed = sorted(folder.glob("chromium-*/chrome-linux*/chrome"), key=lambda path: path.stat().st_mtime)
    return str(installed[-1]) if installed else None


@contextmanager
def browser() -> Iterator["Browser"]:
    """A headless browser with an empty profile, closed at the end; LookupError where the machine has none."""
    path = find()
    if path is None:
        raise LookupError("no chromium or google-chrome on PATH: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        try:
            yield opened
        finally:
            opened.close()


if __name__ == "__main__":
    found = find()
    print(found or "none")
    sys.exit(0 if found else 1)
