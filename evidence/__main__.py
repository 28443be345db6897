"""`make evidence` (or `python -m evidence [STUDY ...] [--small] [--date YYYY-MM-DD]`) runs the studies.

A study is a module of this folder with a docstring that says what was done, and `study(scale) -> list[Figure]`. The whole run
writes docs/evidence.md; a run of named studies prints its tables and writes nothing. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from evidence.figures import Figure, Scale

STUDIES: tuple[str, ...] = ("briefs", "lessons", "beliefs", "drift", "recall", "trials")
HEADER = "| figure | value | n | bar | compared with | kept |\n|---|---|---|---|---|---|"
DOCUMENT = Path(__file__).parents[1] / "docs" / "evidence.md"
INTRODUCTION = """# Evidence

What memtape claims about its own figures, measured. `make evidence` makes this page again with the same seeds; a small version of
each study runs in `make test`. Real histories come from `../shared/data`; where it is absent, the study says so.
Measured on {date}.
"""


def main(arguments: list[str]) -> int:
    """Runs studies; returns 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m evidence")
    parser.add_argument("studies", nargs="*", choices=[*STUDIES, []], help="default: all")
    parser.add_argument("--small", action="store_true", help="few runs, as in the test suite; writes nothing")
    parser.add_argument("--date", default=f"{datetime.now(UTC):%Y-%m-%d}", help="the date on the page")
    given = parser.parse_args(arguments)
    scale: Scale = "small" if given.small else "full"
    sections, kept = [INTRODUCTION.format(date=given.date)], True
    for name in given.studies or STUDIES:
        module = import_module(f"evidence.{name}")
        figures: list[Figure] = module.study(scale)
        kept &= all(figure.ok for figure in figures)
        text = (module.__doc__ or "").strip()
        title, _, what = text.partition("\n")
        rows = [figure.row() for figure in figures]
        sections.append("\n".join([f"## {title.rstrip('.')}", "", what.strip(), "", HEADER, *rows, ""]))
        sys.stdout.write(sections[-1] + "\n")
        sys.stdout.flush()
    if not given.studies and not given.small:
        DOCUMENT.write_text("\n".join(sections))
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
