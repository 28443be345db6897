"""The commands about documents: `docs index`, `docs watch`, `docs search`, `docs eval` and `docs eval-spans`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from memtape.surfaces.cli.commands import answer, perform_as_owner, reporting
from memtape.surfaces.cli.notes import add_to
from memtape.surfaces.cli.options import AgentName, Db, Json, Owner, open_store, say

docs_app = typer.Typer(help="An agent's documents, searched with citations.", no_args_is_help=True, rich_markup_mode=None)
add_to(docs_app)
SlotName = Annotated[str | None, typer.Option("--slot", help="sqlite_fts or hybrid_embeddings; default: as MEMTAPE_SLOT says.")]
Judged = Annotated[str | None, typer.Option("--slot", help="sqlite_fts or hybrid_embeddings; default: this one with --embedder.")]
EmbedderName = Annotated[str | None, typer.Option("--embedder", help="static, minilm or remote; default: as set, or static.")]
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
        asked = {"agent": agent, "folder": str(folder.absolute()), "shared": shared, "anew": anew}
        answer(perform_as_owner(memory, "reindex_documents", asked), as_json)


@docs_app.command("reindex")
def reindex(
    agent: AgentName = "main",
    shared: Annotated[bool, typer.Option("--shared", help="What all agents share.")] = False,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Make the index anew from the files."""
    with reporting(as_json), open_store(db, owner) as memory:
        answer(perform_as_owner(memory, "reindex_documents", {"agent": agent, "shared": shared, "anew": True}), as_json)


@docs_app.command("watch")
def watch(agent: AgentName = "main", db: Db = None, owner: Owner = None, as_json: Json = False) -> None:
    """Keep an agent's index in step with its files until ctrl-C; `memtape serve` does so for all agents."""
    with reporting(as_json), open_store(db, owner) as memory:
        from threading import Event

        from memtape.workers.documents import syncing_documents

        memory.agent(agent)
        say(f"Keeping the documents of {agent} in step. End with ctrl-C.")
        try:
            with syncing_documents(memory, sync_minutes(), agents=[agent], told=lambda told: _tell(told, as_json)):
                Event().wait()
        except KeyboardInterrupt:
            say("Ended.")


def _tell(told: Any, as_json: bool) -> None:
    """A sync that did something, or failed."""
    whose = told.agent or "all agents"
    if told.synced is None:
        say(f"{whose}: {told.problem}")
    elif told.synced.added or told.synced.changed or told.synced.removed:
        counted = {name: getattr(told.synced, name) for name in ("documents", "chunks", "added", "changed", "removed")}
        answer({"agent": whose, **counted}, as_json)


def sync_minutes() -> float:
    """How often all documents are looked at, as it is set."""
    from memtape.compose import setting
    from memtape.errors import Invalid

    given = setting("MEMTAPE_SYNC_MINUTES")
    try:
        minutes = float(given)
    except ValueError:
        minutes = -1.0
    if not 0 <= minutes < float("inf"):
        raise Invalid("MEMTAPE_SYNC_MINUTES", f"'{given}' is no number of minutes", "Set a number; 0 turns the timed sync off")
    return minutes


@docs_app.command("search")
def search(
    query: Annotated[str, typer.Argument(help="Words, a ticker, a rule id, an error code, a quoted phrase.")],
    agent: AgentName = "main", slot: SlotName = None, fusion: Fused = "weighted",
    limit: Annotated[int, typer.Option(help="How many passages.")] = 10,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Search an agent's documents: path, lines, score, snippet, and why."""
    with reporting(as_json), open_store(db, owner) as memory:
        asked = {"agent": agent, "query": query, "limit": limit, "fusion": fusion} | ({"slot": slot} if slot else {})
        found = perform_as_owner(memory, "search_documents", asked)
        answer(found if as_json else _told(found), as_json)


def _told(found: dict[str, Any]) -> dict[str, Any]:
    rows = [
        {"score": round(hit["score"], 3), "where": f"{hit['path']}:{hit['start_line']}-{hit['end_line']}",
         "snippet": hit["snippet"], "reason": hit["reason"]}
        for hit in found["results"]
    ]  # fmt: skip
    return {"agent": found["agent"], "slot": found["slot"], "model": found["model"], "note": found["note"], "results": rows}


@docs_app.command("eval")
def evaluate(
    corpus: Annotated[Path, typer.Option(help="corpus.jsonl(.gz): _id, title, text.")],
    queries: Annotated[Path, typer.Option(help="queries.jsonl(.gz): _id, text.")],
    qrels: Annotated[Path, typer.Option(help="qrels.tsv: query-id, corpus-id, score.")],
    slot: Judged = None, embedder: EmbedderName = None, fusion: Fused = "weighted",
    within: Annotated[str | None, typer.Option(help="Search only within documents that share this field with the query.")] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Judge the search on a set in BEIR form."""
    with reporting(as_json):
        from memtape.lab.retrieval import evaluate_retrieval as judge

        chosen = _slot(slot, embedder)
        answer(judge(corpus, queries, qrels, slot=chosen, embedder=_embedder(embedder, chosen), within=within,
                     fusion=_fusion(fusion)), as_json)  # fmt: skip


@docs_app.command("eval-spans")
def evaluate_spans(
    folder: Annotated[Path, typer.Option("--dir", help="The documents.")],
    questions: Annotated[Path, typer.Option(help="questions.jsonl(.gz): text, path, references.")],
    slot: Judged = None, embedder: EmbedderName = None, fusion: Fused = "weighted", as_json: Json = False,
) -> None:  # fmt: skip
    """Judge which lines the search returns."""
    with reporting(as_json):
        from memtape.lab.retrieval import evaluate_span_retrieval as judge

        chosen = _slot(slot, embedder)
        answer(judge(folder, questions, slot=chosen, embedder=_embedder(embedder, chosen), fusion=_fusion(fusion)), as_json)


def _slot(name: str | None, embedder: str | None) -> Any:
    """The slot to judge; an embedder is named for the slot that has one."""
    from memtape.errors import Invalid

    if name is None:
        return "hybrid_embeddings" if embedder else "sqlite_fts"
    if name not in ("sqlite_fts", "hybrid_embeddings"):
        raise Invalid("slot", f"there is no slot '{name}'", "Choose sqlite_fts or hybrid_embeddings")
    return name


def _fusion(name: str) -> Any:
    from memtape.errors import Invalid

    if name not in ("weighted", "reciprocal"):
        raise Invalid("fusion", f"there is no fusion '{name}'", "Choose weighted or reciprocal")
    return name


def _embedder(name: str | None, slot: str) -> Any:
    from memtape.compose import embedder

    if slot != "hybrid_embeddings":
        return None
    return embedder(name) if name else embedder() or embedder("static")
