"""`make evidence` (or `python -m evidence [STUDY ...] [--small] [--write] [--date YYYY-MM-DD]`) runs the studies.

A study is a module of this folder with a docstring that says what was done, and `study(scale) -> Iterable[Figure]`. The whole run
writes docs/evidence.md; a run of named studies prints its tables, and with --write puts them in the place of their sections. Exit
code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from evidence.figures import Figure, Scale

STUDIES: tuple[str, ...] = (
    "briefs", "lessons", "beliefs", "drift", "recall", "validation", "validation_sim", "calibration", "trial_gold", "trials",
)  # fmt: skip
HEADER = "| figure | value | n | bar | compared with | kept |\n|---|---|---|---|---|---|"
DOCUMENT = Path(__file__).parents[1] / "docs" / "evidence.md"
INTRODUCTION = """# Evidence

What memtape claims about its own figures, measured. `make evidence` makes this page again with the same seeds; a small version of
each study runs in `make test`. Real histories come from `../shared/data`; where it is absent, the study says so.
Measured on {date}.
"""


def replaced(document: str, sections: Sequence[str]) -> str:
    """Returns the document with these sections in the place of those with the same heading, new ones at its end.

    >>> replaced("# E\\n\\n## a\\n1\\n\\n## b\\n2\\n", ["## a\\n3\\n", "## c\\n4\\n"])
    '# E\\n\\n## a\\n3\\n\\n## b\\n2\\n\\n## c\\n4\\n'
    """
    parts = re.split(r"\n(?=## )", document)
    for section in sections:
        heading = section.partition("\n")[0]
        place = next((at for at, part in enumerate(parts) if part.partition("\n")[0] == heading), None)
        if place is None:
            parts.append(section)
        else:
            parts[place] = section
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Runs studies; returns 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m evidence")
    parser.add_argument("studies", nargs="*", choices=[*STUDIES, []], help="default: all")
    parser.add_argument("--small", action="store_true", help="few runs, as in the test suite; writes nothing")
    parser.add_argument("--write", action="store_true", help="named studies: write their sections of docs/evidence.md")
    parser.add_argument("--date", default=f"{datetime.now(UTC):%Y-%m-%d}", help="the date on the page")
    given = parser.parse_args(arguments)
    scale: Scale = "small" if given.small else "full"
    sections, kept = [INTRODUCTION.format(date=given.date)], True
    for name in given.studies or STUDIES:
        module = import_module(f"evidence.{name}")
        figures: list[Figure] = []
        for figure in module.study(scale):
            figures.append(figure)
            sys.stderr.write(f"{figure.row()}\n")  # a full study takes long
            sys.stderr.flush()
        kept &= all(figure.ok for figure in figures)
        text = (module.__doc__ or "").strip()
        title, _, what = text.partition("\n")
        rows = [figure.row() for figure in figures]
        parts = [f"## {title.rstrip('.')}", "", what.strip(), "", HEADER, *rows, ""]
        if hasattr(module, "appendix"):
            parts.append(module.appendix(scale))
        sections.append("\n".join(parts))
        sys.stdout.write(sections[-1] + "\n")
        sys.stdout.flush()
    if not given.studies and not given.small:
        DOCUMENT.write_text("\n".join(sections))
    elif given.write and not given.small:
        DOCUMENT.write_text(replaced(DOCUMENT.read_text(), sections[1:]))
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
