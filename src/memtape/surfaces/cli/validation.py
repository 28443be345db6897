"""`memtape validate`: would memory have helped the sizes of a history?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from memtape.surfaces.cli.options import Db, Json, Owner, progress
from memtape.surfaces.cli.printing import answer, print_sentence, reporting
from memtape.surfaces.translate import json_text


def validate(
    files: Annotated[list[Path] | None, typer.Argument(help="Files of trades; several are one history.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="An agent of the store instead of a file.")] = None,
    split: Annotated[str | None, typer.Option(help="A time, or the share of trades that trains. [default: 0.7]")] = None,
    group: Annotated[str | None, typer.Option(help="A column whose values have a memory and an account each.")] = None,
    bars: Annotated[Path | None, typer.Option(help="CSV of bars: regime, volatility and ATR of each entry.")] = None,
    symbol: Annotated[str | None, typer.Option(help="Symbol of a file without one.")] = None,
    embargo: Annotated[float, typer.Option(help="Hours between the end of a trade and its use.")] = 1.0,
    approach: Annotated[list[str] | None, typer.Option(help="Another sizing: FILE.py:FUNCTION or MODULE:FUNCTION.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not vary parameters.")] = False,
    seed: Annotated[int, typer.Option(help="Of everything that chance decides.")] = 20261118,
    resamples: Annotated[int, typer.Option(help="Redrawn weeks behind each interval.")] = 500,
    starting_equity: Annotated[float, typer.Option(help="What every account starts with.")] = 10_000.0,
    format: Annotated[str | None, typer.Option("--format", help="Format of the file, if it is not recognised.")] = None,
    map: Annotated[list[str] | None, typer.Option("--map", help="A field and its column: side=direction.")] = None,
    where: Annotated[list[str] | None, typer.Option("--where", help="Only rows with this value: variant=hybrid.")] = None,
    zone: Annotated[str | None, typer.Option(help="Time zone of times without one.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out rows that cannot be read.")] = False,
    engine: Annotated[str, typer.Option(help="serial, pool or ray: the numbers are the same.")] = "serial",
    workers: Annotated[int, typer.Option(min=1, help="Processes of the pool.")] = 2,
    address: Annotated[str | None, typer.Option(help="Ray cluster; without it Ray starts on this machine.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Folder of finished parts: the same run goes on from there.")] = None,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Walk a history forward and say whether memory would have helped its sizes."""
    with reporting(as_json):
        from memtape.lab.validate.history import HistorySource
        from memtape.lab.validate.options import ValidateOptions, load_sizing
        from memtape.lab.validate.study import validate_history
        from memtape.surfaces.cli.imports import option_pairs

        source = HistorySource(
            files=tuple(files or ()), agent=agent, store=db, owner=owner, bars=bars, symbol=symbol, group=group, format=format,
            mapping=option_pairs("map", map or []), where=option_pairs("where", where or []), zone=zone, skip_bad=skip_bad,
        )  # fmt: skip
        with progress("validate") as tick:
            options = ValidateOptions(
                split=split, embargo_hours=embargo, starting_equity=starting_equity, seed=seed, resamples=resamples, vary=not quick,
                approaches=dict(load_sizing(name) for name in approach or []), engine=engine, workers=workers, address=address,
                keep=keep, on_progress=tick,
            )  # fmt: skip
            result = validate_history(source, options)
        _print(result, as_json)


def _print(result: dict[str, Any], as_json: bool) -> None:
    from memtape.lab.validate.words import terminal_tables

    if as_json:
        typer.echo(json_text(result).encode())
        return
    print_sentence(result["sentence"])
    answer(terminal_tables(result))
