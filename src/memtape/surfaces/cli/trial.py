"""`memtape trial`: does memory change what a decision maker gets on the same bars?"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from memtape.surfaces.cli.options import Db, Json, Owner, open_store, progress
from memtape.surfaces.cli.printing import answer, print_sentence, reporting
from memtape.surfaces.cli.validation import check_study_places, write_study
from memtape.surfaces.translate import json_text


def trial(
    bars: Annotated[Path, typer.Option("--bars", help="CSV of bars, as for memtape sim.")],
    strategy: Annotated[
        str, typer.Option("--strategy", help="A rule, FILE.py:FUNCTION, or a model like openai/gpt-5-mini.")
    ] = "breakout_with_memory",
    arms: Annotated[str, typer.Option("--arms", help="Of off, on, shuffled, lessons-only.")] = "off,on,shuffled",
    seeds: Annotated[int, typer.Option("--seeds", help="Runs of each arm; each from another bar, shuffled differently.")] = 3,
    symbol: Annotated[str | None, typer.Option(help="Symbol of a file without one.")] = None,
    fee_bps: Annotated[str, typer.Option(help="Fee of a fill, in basis points.")] = "5",
    slippage_bps: Annotated[str, typer.Option(help="Slippage of market and stop orders, in basis points.")] = "2",
    starting_equity: Annotated[str, typer.Option(help="What every account starts with.")] = "10000",
    max_cost: Annotated[str | None, typer.Option(help="US dollars that a model may cost in the whole trial.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens that a model may use in the whole trial.")] = None,
    priced_as: Annotated[str | None, typer.Option(help="A model by whose price the briefs of a rule are counted.")] = None,
    chance: Annotated[int, typer.Option(help="The number from which every seed is made.")] = 20261118,
    resamples: Annotated[int, typer.Option(help="Redrawn histories behind each interval.")] = 500,
    engine: Annotated[str, typer.Option(help="serial, pool or ray: the numbers are the same.")] = "serial",
    workers: Annotated[int, typer.Option(min=1, help="Processes of the pool.")] = 2,
    address: Annotated[str | None, typer.Option(help="Ray cluster; without it Ray starts on this machine.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Folder of finished runs: the same trial goes on from there.")] = None,
    report: Annotated[Path | None, typer.Option(help="HTML file of the report, its data beside it; or a folder.")] = None,
    documents_of: Annotated[
        str | None, typer.Option(help="Put the report among this agent's documents: search and its page find it.")
    ] = None,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Run a decision maker with memory, without it and with a placebo, and say whether memory helped."""
    with reporting(as_json):
        from memtape.core.trial.arms import read_arms
        from memtape.core.values import Money, read
        from memtape.lab.trial.options import TrialOptions
        from memtape.lab.trial.report_text import trial_markdown, trial_name
        from memtape.lab.trial.study import run_trial

        limit: Decimal | None = None if max_cost is None else read(Money, max_cost, at="max_cost")
        check_study_places(report, documents_of, db, owner)
        with progress("trial") as tick:
            result = run_trial(TrialOptions(
                bars=bars, strategy=strategy, arms=read_arms(arms), symbol=symbol, seeds=seeds, chance=chance, fee_bps=fee_bps,
                slippage_bps=slippage_bps, starting_equity=starting_equity, resamples=resamples, priced_as=priced_as,
                max_cost=limit, max_tokens=max_tokens, engine=engine, workers=workers, address=address, keep=keep,
                on_progress=tick,
            ))  # fmt: skip
        written = {} if report is None else _write(result, report)
        if documents_of is not None:
            with open_store(db, owner) as memory:
                kept = memory.agent(documents_of).documents.keep_report(trial_name(result), trial_markdown(result))
            written["document"] = kept
        _show(result, written, as_json)


def _write(result: dict[str, Any], where: Path) -> dict[str, str]:
    from memtape.lab.trial.report_text import trial_markdown
    from memtape.surfaces.web.trial_report import render_trial

    return write_study(where, result, render_trial(result), trial_markdown(result))


def _show(result: dict[str, Any], written: dict[str, str], as_json: bool) -> None:
    from memtape.lab.trial.words import trial_terminal

    if as_json:
        typer.echo(json_text(result).encode())
        return
    print_sentence(result["sentence"])
    answer(trial_terminal(result) | written)
