"""The commands about documents: `docs index`, `docs search`, `docs eval` and `docs eval-spans`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from memtape.surfaces.commands import answer, reporting
from memtape.surfaces.options import AgentName, Db, Json, Owner, open_store

docs_app = typer.Typer(help="An agent's documents, searched with citations.", no_args_is_help=True, rich_markup_mode=None)
SlotName = Annotated[str, typer.Option("--slot", help="sqlite_fts or hybrid_embeddings.")]
EmbedderName = Annotated[str | None, typer.Option("--embedder", help="static; default: as MEMTAPE_EMBEDDER says.")]
Fused = Annotated[str, typer.Option("--fusion", help="weighted or reciprocal.")]


@docs_app.command("index")
def index(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The workspace.")],
    agent: AgentName = "main",
    shared: Annotated[bool, typer.Option("--shared", help="For all agents: playbooks, runbooks.")] = False,
    anew: Annotated[bool, typer.Option("--anew", help="Read every file again.")] = False,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Let a folder belong to an agent's documents, and index it; unchanged files are not read again."""
    with reporting(as_json), open_store(db, owner) as memory:
        from memtape.surfaces.registry import execute

        asked = {"agent": agent, "folder": str(folder.absolute()), "shared": shared, "anew": anew}
        answer(execute(memory, "reindex_documents", asked), as_json)


@docs_app.command("reindex")
def reindex(
    agent: AgentName = "main",
    shared: Annotated[bool, typer.Option("--shared", help="What all agents share.")] = False,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Make the index anew from the files."""
    with reporting(as_json), open_store(db, owner) as memory:
        from memtape.surfaces.registry import execute

        answer(execute(memory, "reindex_documents", {"agent": agent, "shared": shared, "anew": True}), as_json)


@docs_app.command("search")
def search(
    query: Annotated[str, typer.Argument(help="Words, a ticker, a rule id, an error code, a quoted phrase.")],
    agent: AgentName = "main", slot: SlotName = "sqlite_fts", fusion: Fused = "weighted",
    limit: Annotated[int, typer.Option(help="How many passages.")] = 10,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Search an agent's documents: path, lines, score, snippet, and why."""
    with reporting(as_json), open_store(db, owner) as memory:
        from memtape.surfaces.registry import execute

        asked = {"agent": agent, "query": query, "slot": slot, "limit": limit, "fusion": fusion}
        found = execute(memory, "search_documents", asked)
        answer(found if as_json else _told(found), as_json)


def _told(found: dict[str, Any]) -> dict[str, Any]:
    rows = [
        {"score": round(hit["score"], 3), "where": f"{hit['path']}:{hit['start_line']}-{hit['end_line']}",
         "snippet": hit["snippet"], "reason": hit["reason"]}
        for hit in found["results"]
    ]  # fmt: skip
    return {"agent": found["agent"], "slot": found["slot"], "note": found["note"], "results": rows}


@docs_app.command("eval")
def evaluate(
    corpus: Annotated[Path, typer.Option(help="corpus.jsonl(.gz): _id, title, text.")],
    queries: Annotated[Path, typer.Option(help="queries.jsonl(.gz): _id, text.")],
    qrels: Annotated[Path, typer.Option(help="qrels.tsv: query-id, corpus-id, score.")],
    slot: SlotName = "sqlite_fts", embedder: EmbedderName = None, fusion: Fused = "weighted",
    within: Annotated[str | None, typer.Option(help="Search only within documents that share this field with the query.")] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Judge the search on a set in BEIR form."""
    with reporting(as_json):
        from memtape.lab.retrieval import evaluate as judge

        answer(judge(corpus, queries, qrels, slot=_slot(slot), embedder=_embedder(embedder, slot), within=within,
                     fusion=_fusion(fusion)), as_json)  # fmt: skip


@docs_app.command("eval-spans")
def evaluate_spans(
    folder: Annotated[Path, typer.Option("--dir", help="The documents.")],
    questions: Annotated[Path, typer.Option(help="questions.jsonl(.gz): text, path, references.")],
    slot: SlotName = "sqlite_fts", embedder: EmbedderName = None, fusion: Fused = "weighted", as_json: Json = False,
) -> None:  # fmt: skip
    """Judge which lines the search returns."""
    with reporting(as_json):
        from memtape.lab.retrieval import evaluate_spans as judge

        answer(judge(folder, questions, slot=_slot(slot), embedder=_embedder(embedder, slot), fusion=_fusion(fusion)), as_json)


def _slot(name: str) -> Any:
    from memtape.errors import Invalid

    if name not in ("sqlite_fts", "hybrid_embeddings"):
        raise Invalid("slot", f"there is no slot '{name}'", "Choose sqlite_fts or hybrid_embeddings")
    return name


def _fusion(name: str) -> Any:
    from memtape.errors import Invalid

    if name not in ("weighted", "reciprocal"):
        raise Invalid("fusion", f"there is no fusion '{name}'", "Choose weighted or reciprocal")
    return name


def _embedder(name: str | None, slot: str) -> Any:
    from memtape.compose import setting
    from memtape.plugs.embedder import embedder_of

    return embedder_of(name or setting("MEMTAPE_EMBEDDER")) if slot == "hybrid_embeddings" else None
