"""Does memory help? `memtape validate` on a simulation.

The strategy `breakout` trades eight years of hourly bars of gold, as `memtape sim` does it, and its agent is validated with the
defaults. Its trades have stops, so R is by stop. What the figures are stands with those of gold above.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from evidence.figures import Figure, Scale
from evidence.trade_histories import DATA
from evidence.validation import figures_of, options_of, tables_of
from memtape.lab.validate.history import HistorySource
from memtape.lab.validate.study import validate_history
from memtape.surfaces.cli.main import app

BARS = DATA.parent / "market" / "xauusd_h1_2017_2024.csv.gz"


def study(scale: Scale) -> list[Figure]:
    """Returns what sizes by memory were worth on the simulated trades."""
    return [figure for name, result in results(scale).items() for figure in figures_of(name, result)]


def appendix(scale: Scale) -> str:
    """Returns the tables of the simulated trades."""
    return tables_of(results(scale))


@cache
def results(scale: Scale) -> Mapping[str, dict[str, Any]]:
    """Returns the validation of a simulation; none where the bars are absent."""
    if not BARS.is_file():
        return {}
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "sim.db")
        command = ["sim", "--bars", str(BARS), "--symbol", "XAUUSD", "--db", store, "--agent", "sim", "--report", folder]
        done = CliRunner().invoke(app, command)
        if done.exit_code:
            raise RuntimeError(done.output)
        return {"simulated breakouts on gold": validate_history(HistorySource(agent="sim", store=store), options_of(scale))}
