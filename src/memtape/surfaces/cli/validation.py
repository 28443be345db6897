"""`memtape validate`: would memory have helped the sizes of a history?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from memtape.errors import Invalid
from memtape.surfaces.cli.options import Db, Json, Owner, open_store, progress
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
    kind: Annotated[str | None, typer.Option(help="What the file holds, trades or fills, if its columns do not show it.")] = None,
    map: Annotated[list[str] | None, typer.Option("--map", help="A field and its column: side=direction.")] = None,
    where: Annotated[list[str] | None, typer.Option("--where", help="Only rows with this value: variant=hybrid.")] = None,
    zone: Annotated[str | None, typer.Option(help="Time zone of times without one.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out rows that cannot be read.")] = False,
    engine: Annotated[str, typer.Option(help="serial, pool or ray: the numbers are the same.")] = "serial",
    workers: Annotated[int, typer.Option(min=1, help="Processes of the pool.")] = 2,
    address: Annotated[str | None, typer.Option(help="Ray cluster; without it Ray starts on this machine.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Folder of finished parts: the same run goes on from there.")] = None,
    report: Annotated[Path | None, typer.Option(help="HTML file of the report, its data beside it; or a folder.")] = None,
    documents_of: Annotated[
        str | None, typer.Option(help="Put the report among this agent's documents: search and its page find it.")
    ] = None,
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
            kind=kind, mapping=option_pairs("map", map or []), where=option_pairs("where", where or []), zone=zone,
            skip_bad=skip_bad,
        )  # fmt: skip
        check_study_places(report, documents_of, db, owner)
        with progress("validate") as tick:
            options = ValidateOptions(
                split=split, embargo_hours=embargo, starting_equity=starting_equity, seed=seed, resamples=resamples,
                vary=not quick, approaches=dict(load_sizing(name) for name in approach or []), engine=engine, workers=workers,
                address=address, keep=keep, on_progress=tick,
            )  # fmt: skip
            result = validate_history(source, options)
        written = {} if report is None else write_validation(result, report)
        if documents_of is not None:
            written["document"] = _keep_document(result, documents_of, db, owner)
        _print(result, written, as_json)


def write_validation(result: dict[str, Any], where: Path) -> dict[str, str]:
    """Writes the report of a validation and its data. Returns the paths."""
    from memtape.lab.validate.report_text import validation_markdown
    from memtape.surfaces.web.validation_report import render_validation

    return write_study(where, result, render_validation(result), validation_markdown(result))


def check_study_places(report: Path | None, documents_of: str | None, db: str | None, owner: str | None) -> None:
    """Refuses a report that could not be written and an agent that does not exist: before the work, not after it."""
    if report is not None:
        _page_of(report)
        ancestor = next(folder for folder in (report.absolute(), *report.absolute().parents) if folder.exists())
        if not (ancestor.is_dir() or ancestor == report.absolute()) or not os.access(ancestor, os.W_OK):
            raise Invalid("report", f"{report} cannot be written", "Name another file")
    if documents_of is not None:
        with open_store(db, owner) as memory:
            memory.agent(documents_of)


def _page_of(where: Path) -> Path:
    """Returns the page of a report: the file itself, or report.html of a folder."""
    if where.is_dir() or not where.suffix:
        return where / "report.html"
    if where.suffix.lower() not in (".html", ".htm"):
        raise Invalid("report", f"{where.name} is no HTML file", "Name a file that ends in .html, or a folder")
    return where


def write_study(where: Path, result: dict[str, Any], html: str, markdown: str) -> dict[str, str]:
    """Writes a report as a page with its data beside it, or all three forms into a folder. Returns the paths."""
    page = _page_of(where)
    texts = {page: html, page.with_suffix(".json"): json_text(result) + "\n"}
    if page != where:
        texts[page.with_suffix(".md")] = markdown
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise Invalid("report", f"{where} cannot be written: {error.strerror}", "Name another file") from None
    return {"report": str(page.absolute()), "data": str(page.with_suffix(".json").absolute())}


def _keep_document(result: dict[str, Any], agent: str, db: str | None, owner: str | None) -> str:
    from memtape.lab.validate.report_text import report_name, validation_markdown

    with open_store(db, owner) as memory:
        return memory.agent(agent).documents.keep_report(report_name(result), validation_markdown(result))


def _print(result: dict[str, Any], written: dict[str, str], as_json: bool) -> None:
    from memtape.lab.validate.words import terminal_tables

    if as_json:
        typer.echo(json_text(result).encode())
        return
    print_sentence(result["sentence"])
    answer(terminal_tables(result) | written)
