"""The command line: the housekeeping commands, and the commands that are derived from the operations.

Everything heavy is imported inside the command that needs it, so that `memtape --help` is quick.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memtape.brokers.formats import format_names
from memtape.brokers.headings import FILE_KINDS
from memtape.surfaces.cli.briefs import brief, lessons_app, reflect
from memtape.surfaces.cli.cards import cards_app
from memtape.surfaces.cli.chat import chat
from memtape.surfaces.cli.commands import add_operations, answer, perform_as_owner, reporting
from memtape.surfaces.cli.documents import docs_app, sync_minutes
from memtape.surfaces.cli.embedder import embedder_app
from memtape.surfaces.cli.events import events_app
from memtape.surfaces.cli.follow import follow
from memtape.surfaces.cli.options import AgentName, Db, Json, Owner, open_store, progress, say

if TYPE_CHECKING:
    from memtape.engine import Memory

app = typer.Typer(
    help="memtape: the memory of AI trading agents.", no_args_is_help=True, add_completion=False, rich_markup_mode=None,
    pretty_exceptions_enable=False,
)  # fmt: skip
imports_app = typer.Typer(help="Imported files.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(imports_app, name="imports")

PORT = 8765
# All housekeeping commands: they exist on the command line only.
HOUSEKEEPING = (
    "serve", "mcp", "init", "doctor", "conform", "brief", "reflect", "lessons", "follow", "chat", "docs", "cards", "events",
    "embedder",
    "sim", "import", "imports", "verify", "rebuild", "backup", "restore", "export", "bench", "migrate", "docs-reference",
)  # fmt: skip


# ---- serving ---------------------------------------------------------------------------------------------------------


@app.command()
def serve(
    db: Db = None, owner: Owner = None,
    host: Annotated[str, typer.Option(help="A loopback address.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free port.", min=0, max=65535)] = PORT,
    agent: Annotated[str | None, typer.Option(help="The agent of /mcp, and of /v1 where a call names none.")] = None,
    tools: Annotated[str, typer.Option(help="Tool set of /mcp: trader, coach or full.")] = "trader",
    any_agent: Annotated[bool, typer.Option("--any-agent", help="Let a model on /mcp reach every agent.")] = False,
    reports: Annotated[str | None, typer.Option(help="'operator': let a model on /mcp report fills, bars, equity.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve simulated agents on real prices, from a separate store.")] = False,
) -> None:  # fmt: skip
    """Serve the pages, HTTP (/v1) and MCP (/mcp) on loopback."""
    with reporting():
        from functools import partial

        from memtape.surfaces.http import build_app, listen, run_http
        from memtape.surfaces.registry import reports_as_operator, tool_set
        from memtape.surfaces.web import add_pages
        from memtape.workers.decision_bars import fetching_decision_bars
        from memtape.workers.documents import syncing_documents
        from memtape.workers.run_schedule import running_agents
        from memtape.workers.schedule import running_schedule

        minutes = sync_minutes()
        where = _demo_store(db, owner) if demo else db
        with open_store(where, owner) as memory:
            if demo:
                _demo_documents(memory, str(where))
            listener = listen(host, port)
            at = f"http://{host}:{listener.getsockname()[1]}"
            say(_greeting(at, memory.url, demo))

            def rows() -> int:
                return sum(memory.agent(each.id).head().seq for each in memory.agents())

            application = build_app(
                memory, web=partial(add_pages, memory=memory), agent=agent, tools=tool_set(tools), any_agent=any_agent,
                reports=reports_as_operator(reports), ready=memory.agents,
                log_rows=rows,
            )  # fmt: skip
            runs = running_agents(memory, partial(_scheduled_run, memory))
            bars = fetching_decision_bars(memory)
            with running_schedule(memory), syncing_documents(memory, minutes), bars, runs:
                run_http(application, listener)


def _scheduled_run(memory: Memory, agent: str, slot: datetime) -> None:
    """Run an agent for a moment of its schedule."""
    from memtape.runners.conduct import RunTask, conduct_run
    from memtape.surfaces.run_host import run_host

    prompt = memory.agent_config(agent).config.default_prompt
    conduct_run(memory, run_host(memory), agent, RunTask(kind="scheduled", prompt=prompt, slot=slot), wait_seconds=0)


def _demo_store(db: str | None, owner: str | None) -> str:
    """The store of the demo. It is filled before it gets its name, so an interrupted run starts over."""
    from memtape.sim.demo import fill_demo

    target = Path(db or Path.home() / ".memtape" / "demo.db").expanduser().absolute()
    if not target.exists():
        say("Filling the demo store: simulated trades on real daily stock bars.")
        part = target.with_name(target.name + ".part")
        for leftover in target.parent.glob(part.name + "*"):
            leftover.unlink()
        with progress("demo") as report, open_store(str(part), owner) as memory:
            fill_demo(memory, lambda _agent, done, total: report(done, total))
        part.rename(target)
    return str(target)


def _demo_documents(memory: Memory, where: str) -> None:
    """A workspace for the demo. The store must have its name: the index is named after it."""
    from memtape.sim.demo_documents import fill_documents

    fill_documents(memory, Path(where).with_suffix(".workspace") / "tech-breakout")


def _greeting(at: str, url: str, demo: bool) -> str:
    lines = [
        f"memtape serves {at}",
        f"  data   {url}",
        f"  pages  {at}/   HTTP {at}/v1 (OpenAPI: /v1/openapi.json)   MCP {at}/mcp",
    ]
    if demo:
        store = url.removeprefix("sqlite:///")
        here = Path(sys.argv[0]).absolute()
        program = here.relative_to(Path.cwd()) if here.name == "memtape" and here.is_relative_to(Path.cwd()) else "memtape"
        lines += [
            "Next:",
            f"  1. open {at}/ and look at an agent's trades",
            f"  2. {program} ledger --agent tech-breakout --db {store}",
            f"  3. claude mcp add --transport http memtape {at}/mcp",
        ]
    return "\n".join(lines)


@app.command()
def mcp(
    db: Db = None, owner: Owner = None,
    agent: Annotated[str | None, typer.Option(help="The agent of the tools: no other can be reached. Default: main.")] = None,
    tools: Annotated[str, typer.Option("--tools", "--profile", help="trader, coach or full.")] = "trader",
    any_agent: Annotated[bool, typer.Option("--any-agent", help="Let the model reach every agent.")] = False,
    reports: Annotated[str | None, typer.Option(help="'operator': let the model report fills, bars, equity.")] = None,
) -> None:  # fmt: skip
    """Serve MCP on standard input and output, for Claude Code, Cursor and others."""
    with reporting():
        from memtape.surfaces.mcp import run_stdio
        from memtape.surfaces.registry import reports_as_operator, tool_set

        minutes = sync_minutes()

        def background(memory: Memory) -> AbstractContextManager[None]:
            from memtape.workers.documents import syncing_documents

            return syncing_documents(memory, minutes, ends_seconds=0.2)  # closing the pipe does not wait for a sync

        run_stdio(
            lambda: open_store(db, owner), tools=tool_set(tools), agent=agent, any_agent=any_agent,
            reports=reports_as_operator(reports), background=background,
        )  # fmt: skip


# ---- setting up --------------------------------------------------------------------------------------------------------


@app.command()
def init(db: Db = None, owner: Owner = None, as_json: Json = False) -> None:
    """Create the store and print its MCP configuration."""
    with reporting(as_json), open_store(db, owner) as memory:
        block = {"mcpServers": {"memtape": {"command": "memtape", "args": ["mcp", "--db", memory.url]}}}
        answer({"db": memory.url, "owner": memory.owner, "schema": memory.database.schema(), "mcp": block}, as_json)


@app.command()
def migrate(db: Db = None, as_json: Json = False) -> None:
    """Migrate the store to the schema of this version. PostgreSQL is migrated only by this command."""
    with reporting(as_json):
        from memtape.compose import open_database
        from memtape.engine.proof.upgrade import upgrade_rules

        database = open_database(db, migrating=True)
        done, schema = database.migrate(), database.schema()
        database.close()
        # A change of rules rebuilds trades and memories: for every owner that this account may see.
        database = open_database(db)
        rebuilt = upgrade_rules(database)
        answer({"db": database.url, "schema": schema, "steps": done, "rebuilt": rebuilt}, as_json)
        database.close()


@app.command()
def doctor(db: Db = None, as_json: Json = False) -> None:
    """Check Python, SQLite, lock, schema, chain heads, disk and file system; report what is empty and why."""
    with reporting(as_json):
        from memtape.surfaces.cli.doctor import examine

        found = examine(db)
        answer(found, as_json)
        if not found["ok"]:
            raise typer.Exit(1)


# ---- the store --------------------------------------------------------------------------------------------------------


@app.command()
def verify(
    db: Db = None, owner: Owner = None, as_json: Json = False,
    against: Annotated[Path | None, typer.Option(help="Heads exported earlier: detects removed rows at the end.")] = None,
    export_heads: Annotated[Path | None, typer.Option(help="Write the heads to this file.")] = None,
) -> None:  # fmt: skip
    """Recompute the hash chain and every projection and report the first bad row. Exit code 4 if anything was altered."""
    with reporting(as_json), open_store(db, owner) as memory:
        from memtape.engine.proof.audit import verify_store as prove

        heads = _heads(against) if against else []
        found = prove(memory, heads)
        if export_heads:
            export_heads.write_text(json.dumps({"heads": found.heads}, indent=1) + "\n", encoding="utf-8")
        answer(_audit(found), as_json)
        if not found.ok:
            raise typer.Exit(4)
        if found.needs_rebuild:
            typer.echo("Needs rebuild: these trades were computed by older rules. Run: memtape rebuild", err=True)
            raise typer.Exit(1)


def _heads(file: Path) -> list[dict[str, Any]]:
    from memtape.errors import Invalid

    try:
        heads = json.loads(file.read_text(encoding="utf-8"))["heads"]
        kinds = {"owner": str, "stream": str, "seq": int, "hash": str}
        # Heads of an earlier version have no count of shredded rows.
        counts = [{"shredded": int(head.get("shredded", 0))} for head in heads]
        return [{name: kind(head[name]) for name, kind in kinds.items()} | n for head, n in zip(heads, counts, strict=True)]
    except (OSError, ValueError, KeyError, TypeError):
        raise Invalid("against", f"{file} has no exported heads", "Create it with: memtape verify --export-heads FILE") from None


def _audit(found: Any) -> dict[str, Any]:
    problems = [
        {"owner": p.owner, "stream": p.stream, "table": p.table, "row": p.key, "problem": p.problem} for p in found.problems
    ]
    return {"ok": found.ok, "problems": problems, "log_rows": found.log_rows, "rows": found.rows, "heads": found.heads,
            "digests": found.digests, "needs_rebuild": found.needs_rebuild, "shredded": found.shredded,
            "shredded_since": found.shredded_since, "deletions": found.deletions}  # fmt: skip


@app.command()
def rebuild(db: Db = None, owner: Owner = None, as_json: Json = False) -> None:
    """Rebuild every projection from the log."""
    with reporting(as_json), open_store(db, owner) as memory:
        from memtape.engine.proof.audit import rebuild_store

        answer(_audit(rebuild_store(memory)), as_json)


@app.command()
def backup(path: Annotated[Path, typer.Argument(help="A new file.")], db: Db = None, as_json: Json = False) -> None:
    """Copy an embedded store consistently, while others write to it."""
    with reporting(as_json), open_store(db) as memory:
        memory.database.backup(str(path))
        answer({"db": memory.url, "backup": str(path.absolute()), "bytes": path.stat().st_size}, as_json)


@app.command()
def restore(
    path: Annotated[Path, typer.Argument(help="A backup file, a .jsonl export or an export folder.")],
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Restore a backup or an export into an empty store, and verify it."""
    with reporting(as_json):
        from memtape.surfaces.cli.restore import restore_from

        answer(restore_from(path, db, owner), as_json)


@app.command()
def export(
    path: Annotated[Path, typer.Argument(help="A new file (jsonl, markdown) or folder (csv, parquet).")],
    form: Annotated[str, typer.Option("--format", help="jsonl, csv, parquet or markdown.")] = "jsonl",
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Export everything. jsonl, csv and parquet can be restored, to the same digests."""
    with reporting(as_json), open_store(db, owner) as memory:
        from memtape.engine.proof.transfer import export_store as leave

        answer({"path": str(path.absolute()), "format": form, "rows": leave(memory, path, form)}, as_json)


# ---- files in ----------------------------------------------------------------------------------------------------------


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="CSV or JSONL of trades, fills, decisions, equity or positions; tradememory .db.")],
    agent: AgentName = "main",
    kind: Annotated[str | None, typer.Option(help=f"What it holds: {', '.join(FILE_KINDS)}; default: detected.")] = None,
    form: Annotated[str | None, typer.Option("--format", help=f"One of {', '.join(format_names())}; default: detected.")] = None,
    mapping: Annotated[list[str] | None, typer.Option("--map", help="field=column, to correct the detected mapping.")] = None,
    where: Annotated[list[str] | None, typer.Option("--where", help="column=value: only rows with this value.")] = None,
    zone: Annotated[str | None, typer.Option("--zone", "--tz", help="Zone of times without one, like Europe/Berlin.")] = None,
    symbol: Annotated[str | None, typer.Option(help="Symbol of a file without one.")] = None,
    currency: Annotated[str | None, typer.Option(help="Currency of the amounts, like EUR.")] = None,
    starting_equity: Annotated[str | None, typer.Option(help="What the account started with; for a new agent.")] = None,
    guess: Annotated[bool, typer.Option("--guess", help="Detect the columns, even if they were mapped before.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip rows with problems.")] = False,
    commit: Annotated[bool, typer.Option("--commit", help="Import; without it only a preview is shown.")] = False,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Preview a file of trades, fills, decisions, equity or positions; --commit imports it. Imports are idempotent."""
    with reporting(as_json), open_store(db, owner) as memory, progress("import") as report:
        from memtape.surfaces.cli.imports import import_text, option_pairs, run_import

        found = run_import(
            memory, file, agent=agent, format=form, kind=kind, mapping=option_pairs("map", mapping or []) or None,
            where=option_pairs("where", where or []) or None, zone=zone, symbol=symbol, skip_bad=skip_bad, commit=commit,
            on_progress=report, currency=currency, starting_equity=starting_equity, guess=guess,
        )  # fmt: skip
        answer(found if as_json else import_text(found), as_json)
        if not commit and not as_json:
            say("This is a preview; nothing was written. Add --commit to import.")


@imports_app.command("list")
def imports_list(agent: AgentName = "main", db: Db = None, owner: Owner = None, as_json: Json = False) -> None:
    """List the imports of an agent, oldest first, one line for each."""
    with reporting(as_json), open_store(db, owner) as memory:
        found = perform_as_owner(memory, "list_imports", {"agent": agent})
        if as_json:
            answer(found, as_json)
        else:
            from memtape.surfaces.cli.imports import import_line

            rows = [import_line(row) for row in found["imports"]] or [f"agent '{agent}' has no imports"]
            typer.echo("\n".join(rows).encode())


@imports_app.command("undo")
def imports_undo(
    batch: Annotated[str | None, typer.Argument(help="From: memtape imports list. The only import needs none.")] = None,
    agent: AgentName = "main", db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Undo an import, and say what was taken back."""
    with reporting(as_json), open_store(db, owner) as memory:
        done = perform_as_owner(memory, "undo_import", {"agent": agent, "batch": batch})
        if as_json:
            answer(done, as_json)
        else:
            from memtape.surfaces.cli.imports import undo_sentence

            typer.echo(undo_sentence(done).encode())


# ---- simulation and evidence -------------------------------------------------------------------------------------------


@app.command()
def sim(
    bars: Annotated[Path, typer.Option("--bars", help="CSV: time, open, high, low, close, volume; symbol optional.")],
    strategy: Annotated[str, typer.Option(help="breakout, mean_reversion, or a model: anthropic/NAME.")] = "breakout",
    agent: AgentName = "sim",
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
    with reporting(as_json), open_store(db, owner) as memory, progress("sim") as tick:
        from memtape.core.values import Quantity, read
        from memtape.sim.recorded_model import COST_LIMIT, FAILURES, TOKEN_LIMIT, UseLimits
        from memtape.surfaces.cli.imports import option_pairs
        from memtape.surfaces.cli.simulation import SimulationOptions, simulate

        terms = SimulationOptions(
            leverage=leverage, funding=funding, participation=participation, limits=option_pairs("limit", limit or [])
        )
        found = simulate(
            memory, bars, strategy, agent=agent, symbol=symbol, fee_bps=fee_bps, slippage_bps=slippage_bps,
            starting_equity=starting_equity, report=report, on_progress=tick, skill=skill, terms=terms,
            strict=strict, limits=UseLimits(None if max_cost is None else read(Quantity, max_cost, at="max_cost"), max_tokens),
        )  # fmt: skip
        asked = found.pop("asked", [])
        answer(found | ({"asked": asked} if as_json and asked else {}), as_json)
    if found.get("ended") in (COST_LIMIT, TOKEN_LIMIT):
        say(f"The run ended at its {found['ended']}: the next question could exceed it. A higher one continues the run.")
    if found.get("ended") == FAILURES:
        last = next(row for row in reversed(asked) if row["skipped"])
        say(f"memtape: the run ended after {FAILURES}; the last: {last['problem']}. The same command continues it.")
        raise typer.Exit(1)


@app.command()
def conform(file: Annotated[Path, typer.Argument(help="File of golden vectors.")], as_json: Json = False) -> None:
    """Run golden vectors through memtape's own functions. Exit code 1 on any failure."""
    with reporting(as_json):
        from memtape.lab.conform import run_vectors as judge

        found = judge(file)
        answer(found, as_json)
        if found["failed"]:
            raise typer.Exit(1)


@app.command()
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


@app.command("docs-reference", hidden=True)
def docs_reference(folder: Annotated[Path, typer.Argument(help="Folder for the pages.")]) -> None:
    """Write the reference pages."""
    with reporting():
        from memtape.surfaces.cli.reference import write_reference

        for page in write_reference(folder):
            say(str(page))


app.add_typer(lessons_app, name="lessons")
app.add_typer(docs_app, name="docs")
app.add_typer(cards_app, name="cards")
app.add_typer(events_app, name="events")
app.add_typer(embedder_app, name="embedder")
for function in (brief, reflect, follow, chat):
    app.command()(function)
add_operations(app, open_store)


def main() -> None:
    """The entry point."""
    app()


if __name__ == "__main__":
    main()
