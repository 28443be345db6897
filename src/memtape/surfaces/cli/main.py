"""The command line: the commands written by hand, and those that call operations.

`layout.py` says where each stands. Everything heavy is imported inside the command that needs it, so that `memtape --help`
is quick.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from memtape.surfaces.cli.briefs import brief, lessons_app
from memtape.surfaces.cli.cards import cards_app
from memtape.surfaces.cli.chat import chat
from memtape.surfaces.cli.commands import add_operations, operation_commands, operation_names
from memtape.surfaces.cli.connect import connect
from memtape.surfaces.cli.documents import docs_app
from memtape.surfaces.cli.embedder import embedder_app
from memtape.surfaces.cli.events import events_app
from memtape.surfaces.cli.follow import follow, sync
from memtape.surfaces.cli.groups import Command, command_group, deferred_commands, root_group
from memtape.surfaces.cli.keep import backup, export, migrate, rebuild, restore, verify
from memtape.surfaces.cli.layout import PANELS, nearest_commands
from memtape.surfaces.cli.options import Db, Json, Owner, open_store, progress, say
from memtape.surfaces.cli.printing import answer, print_sentence, reporting
from memtape.surfaces.cli.sentences import simulation_sentence
from memtape.surfaces.cli.serving import demo, mcp, serve
from memtape.surfaces.cli.start import doctor, imports_app, init, preview_or_import
from memtape.surfaces.cli.trial import trial
from memtape.surfaces.cli.validation import validate

app = command_group(
    "memtape: the memory of AI trading agents.",
    cls=root_group(
        PANELS,
        elsewhere=lambda word: nearest_commands(word, operation_names()),
        more_commands=lambda group: {**DEFERRED.get(group, {}), **operation_commands(group, open_store)},
    ),
)
LINES = {name: line for panel in PANELS.values() for name, line in panel.items()}


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"memtape {version('memtape')}")
        raise typer.Exit


@app.callback()
def memtape(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version)] = False,
) -> None:
    """memtape: the memory of AI trading agents."""


@app.command(cls=Command, short_help=LINES["sim"])
def sim(
    bars: Annotated[Path, typer.Option("--bars", help="CSV: time, open, high, low, close, volume; symbol optional.")],
    strategy: Annotated[str, typer.Option(help="One of breakout, mean_reversion, or openai/NAME, anthropic/NAME.")] = "breakout",
    agent: Annotated[str, typer.Option(help="The agent; it is created.")] = "sim",
    skill: Annotated[str | None, typer.Option(help="An existing skill; without it one is created for the strategy.")] = None,
    symbol: Annotated[str | None, typer.Option(help="Symbol of a file without one.")] = None,
    fee_bps: Annotated[str, typer.Option(help="Fee in basis points.")] = "5",
    slippage_bps: Annotated[str, typer.Option(help="Slippage in basis points.")] = "2",
    starting_equity: Annotated[str, typer.Option(help="Account currency.")] = "10000",
    leverage: Annotated[str | None, typer.Option(help="Maximum leverage; positions can then be liquidated.")] = None,
    funding: Annotated[str | None, typer.Option(help="Funding rate every 8 hours; a long pays a positive rate.")] = None,
    participation: Annotated[str | None, typer.Option(help="Maximum share of a bar's volume that one order fills.")] = None,
    limit: Annotated[list[str] | None, typer.Option("--limit", help="A guarded limit: 'risk per trade=1 % of equity'.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse rows with an empty field instead of skipping them.")] = False,
    max_cost: Annotated[str | None, typer.Option(help="US dollars that a model's answers may cost in all.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens that a model may use in all.")] = None,
    report: Annotated[Path, typer.Option(help="The report: a .html or .md file, or a folder for both.")] = Path("report.md"),
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Simulate a strategy or a model on your bars, with the same engine calls as live trading."""
    with reporting(as_json), open_store(db, owner) as memory:
        from memtape.core.values import Quantity, read
        from memtape.sim.recorded_model import COST_LIMIT, FAILURES, TOKEN_LIMIT, UseLimits
        from memtape.surfaces.cli.imports import option_pairs
        from memtape.surfaces.cli.simulation import SimulationOptions, simulate

        terms = SimulationOptions(
            leverage=leverage, funding=funding, participation=participation, limits=option_pairs("limit", limit or [])
        )
        use = UseLimits(None if max_cost is None else read(Quantity, max_cost, at="max_cost"), max_tokens)
        with progress("sim") as tick:
            found = simulate(
                memory, bars, strategy, agent=agent, symbol=symbol, fee_bps=fee_bps, slippage_bps=slippage_bps,
                starting_equity=starting_equity, report=report, on_progress=tick, skill=skill, terms=terms,
                strict=strict, limits=use,
            )  # fmt: skip
        asked = found.pop("asked", [])
        answer(found | ({"asked": asked} if as_json and asked else {}), as_json)
        if not as_json:
            print_sentence(simulation_sentence(found, agent, db))
    if found.get("ended") in (COST_LIMIT, TOKEN_LIMIT):
        say(f"The run ended at its {found['ended']}: the next question could exceed it. A higher one continues the run.")
    if found.get("ended") == FAILURES:
        last = next(row for row in reversed(asked) if row["skipped"])
        say(f"memtape: the run ended after {FAILURES}; the last: {last['problem']}. The same command continues it.")
        raise typer.Exit(1)


@app.command(cls=Command, short_help=LINES["conform"])
def conform(file: Annotated[Path, typer.Argument(help="File of golden vectors.")], as_json: Json = False) -> None:
    """Run golden vectors through memtape's own functions. Exit code 1 on any failure."""
    with reporting(as_json):
        from memtape.lab.conform import run_vectors as judge

        found = judge(file)
        answer(found, as_json)
        if found["failed"]:
            raise typer.Exit(1)


@app.command(cls=Command, short_help=LINES["bench"])
def bench(
    name: Annotated[str | None, typer.Argument(help="Only this benchmark.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, as a smoke test.")] = False,
    as_json: Json = False,
) -> None:
    """Measure the performance budgets, as ratios to a baseline of the same run. Exit code 1 if a bar is missed."""
    with reporting(as_json):
        from memtape.lab.checkout import import_from_checkout

        found = import_from_checkout("bench.budgets", "benchmarks").run_benches(name, quick=quick, say=say)
        answer(found, as_json)
        if not all(row["ok"] for row in found.values()):
            raise typer.Exit(1)


@app.command(cls=Command, short_help=LINES["attack"])
def attack(
    cases: Annotated[int, typer.Option(min=1, help="How many attacks on each store.")] = 520,
    seed: Annotated[int, typer.Option(help="The same seed gives the same attacks.")] = 19,
    desk: Annotated[list[str] | None, typer.Option(help="Only this store: empty, hundred, large or claims.")] = None,
    page: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Write the table into this page, like docs/security.md.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many processes.")] = 1,
    as_json: Json = False,
) -> None:
    """Attack prepared stores as a model could; your own store is not touched. Exit code 1 if a bar is missed."""
    with reporting(as_json):
        from memtape.lab.attack.report import attack_report, attack_table, write_table
        from memtape.lab.attack.suite import chosen_desks, run_attacks

        with progress("attack") as tick:
            found = attack_report(run_attacks(cases, seed, chosen_desks(desk), jobs=jobs, on_progress=tick), cases, seed)
        if page is not None:
            write_table(page, found, datetime.now(UTC).date())
        if as_json:
            answer(found, as_json)
        else:
            for line in attack_table(found):
                typer.echo(line)
            for each in found["found"]:
                typer.echo(f"{each['desk']}: {each['family']}: {each['case']}: {each['what']}")
            for line in found["missed"]:
                typer.echo(f"missed: {line}")
        if not found["ok"]:
            raise typer.Exit(1)


@app.command("docs-reference", hidden=True)
def docs_reference(folder: Annotated[Path, typer.Argument(help="Folder for the pages.")]) -> None:
    """Write the reference pages."""
    with reporting():
        from memtape.surfaces.cli.reference import write_reference

        for page in write_reference(folder):
            say(str(page))


BY_HAND: dict[str, Callable[..., None]] = {
    "demo": demo, "init": init, "import": preview_or_import, "connect": connect, "doctor": doctor, "brief": brief, "chat": chat,
    "follow": follow, "sync": sync, "serve": serve, "mcp": mcp, "backup": backup, "restore": restore, "export": export,
    "verify": verify, "rebuild": rebuild, "migrate": migrate, "validate": validate, "trial": trial,
}  # fmt: skip
GROUPS = {
    "imports": imports_app, "lessons": lessons_app, "docs": docs_app, "cards": cards_app, "events": events_app,
    "embedder": embedder_app,
}  # fmt: skip
GROUPS |= {
    name: command_group(LINES[name])
    for name in ("trades", "decisions", "ask", "observe", "remember", "agents", "skills", "plans", "facts", "chats", "runs")
}
for name, function in BY_HAND.items():
    app.command(name, cls=Command, short_help=LINES[name])(function)
for name, group in GROUPS.items():
    app.add_typer(group, name=name, short_help=LINES[name])
add_operations(app, open_store)
DEFERRED: dict[str, dict[str, Command]] = {name: deferred_commands(group) for name, group in {"": app, **GROUPS}.items()}


def main() -> None:
    """The entry point."""
    # Python looks for cycles among all objects while modules are imported, and once more when it ends: a quarter of the CPU time
    # of a short command, for memory that the process gives back anyway. A command collects as usual while it runs.
    gc.disable()
    atexit.register(gc.freeze)
    app()


if __name__ == "__main__":
    main()
