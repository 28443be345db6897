"""`python -m bench [NAME] [--quick] [--json]` runs the command `memtape bench`."""

from __future__ import annotations

import sys

from memtape.surfaces.cli.main import app

if __name__ == "__main__":
    app(["bench", *sys.argv[1:]], prog_name="memtape")
