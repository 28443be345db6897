"""The commands about documents: `docs index`, `reindex`, `watch`, `search`, `eval` and `eval-spans`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memtape.surfaces.cli.commands import perform_as_owner, print_operation
from memtape.surfaces.cli.groups import Command, command_group
from memtape.surfaces.cli.notes import add_to
from memtape.surfaces.cli.options import AgentName, ColumnNames, Db, Json, Owner, open_store, progress, say
from memtape.surfaces.cli.printing import answer, reporting

if TYPE_CHECKING:
    from memtape.engine.memory import Memory

docs_app = command_group("Documents of an agent: index, search, rules, notes, proposed edits.")
add_to(docs_app)
SlotName = Annotated[str | None, typer.Option("--slot", help="sqlite_fts or hybrid_embeddings; default: MEMTAPE_SLOT.")]
Judged = Annotated[
    str | None, typer.Option("--slot", help="sqlite_fts or hybrid_embeddings; default with --embedder: the second.")
]
EmbedderName = Annotated[
    str | None, typer.Option("--embedder", help="One of static, minilm, remote; default: MEMTAPE_EMBEDDER, or static.")
]
Fused = Annotated[str, typer.Option("--fusion", help="One of weighted, reciprocal.")]
Baselines = Annotated[bool, typer.Option("--baseline", help="Also rank the same passages by FTS5 alone and by BM25 alone.")]


@docs_app.command("index", cls=Command)
def index(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder.")],
    agent: AgentName = None,
    shared: Annotated[bool, typer.Option("--shared", help="Share it with all agents: playbooks, runbooks.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Read every file again.")] = False,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Add a folder to an agent's documents and index it. Unchanged files are not read again."""
    with reporting(as_json), open_store(db, owner) as memory:
        question = {"agent": agent, "folder": str(folder.absolute()), "shared": shared, "rebuild": rebuild}
        _print_sync_of(memory, question, as_json)


@docs_app.command("reindex", cls=Command)
def reindex(
    agent: AgentName = None,
    shared: Annotated[bool, typer.Option("--shared", help="The documents that all agents share.")] = False,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Rebuild the index from the files."""
    with reporting(as_json), open_store(db, owner) as memory:
        _print_sync_of(memory, {"agent": agent, "shared": shared, "rebuild": True}, as_json)


def _print_sync_of(memory: Memory, question: dict[str, Any], as_json: bool) -> None:
    """Sync an index and print the result. On a terminal a bar shows how far it is: twenty thousand files take a while."""
    from memtape.surfaces.registry import operation_named

    known = operation_named("reindex_documents")
    with progress("documents") as memory.resources.on_documents:
        done = perform_as_owner(memory, known, question)
    answer(done, as_json, known.columns)


@docs_app.command("watch", cls=Command)
def watch(agent: AgentName = None, db: Db = None, owner: Owner = None, as_json: Json = False) -> None:
    """Sync an agent's index with its files until ctrl-C. `memtape serve` does this for all agents."""
    with reporting(as_json), open_store(db, owner) as memory:
        from threading import Event

        from memtape.core.skills import DEFAULT_AGENT
        from memtape.workers.documents import syncing_documents

        agent = memory.agent(agent or DEFAULT_AGENT).agent.id
        say(f"Syncing the documents of {agent}. Stop with ctrl-C.")
        try:
            with syncing_documents(memory, sync_minutes(), agents=[agent], on_sync=lambda sync: _print_sync(sync, as_json)):
                Event().wait()
        except KeyboardInterrupt:
            say("Stopped.")


def _print_sync(sync: Any, as_json: bool) -> None:
    """Print a sync that changed something or failed."""
    whose = sync.agent or "all agents"
    if sync.synced is None:
        say(f"{whose}: {sync.problem}")
    elif sync.synced.added or sync.synced.changed or sync.synced.removed:
        counted = {name: getattr(sync.synced, name) for name in ("documents", "chunks", "added", "changed", "removed")}
        answer({"agent": whose, **counted}, as_json)


def sync_minutes() -> float:
    """The setting of how often all documents are synced."""
    from memtape.compose import setting
    from memtape.errors import Invalid

    given = setting("MEMTAPE_SYNC_MINUTES")
    try:
        minutes = float(given)
    except ValueError:
        minutes = -1.0
    if not 0 <= minutes < float("inf"):
        raise Invalid("MEMTAPE_SYNC_MINUTES", f"'{given}' is not a number of minutes", "Set a number; 0 turns the timed sync off")
    return minutes


@docs_app.command("search", cls=Command)
def search(
    query: Annotated[str, typer.Argument(help="Words, a ticker, a rule id, an error code or a quoted phrase.")],
    agent: AgentName = None, slot: SlotName = None, fusion: Fused = "weighted",
    limit: Annotated[int, typer.Option(help="How many passages.")] = 10,
    path: Annotated[str | None, typer.Option(help="Only this file or folder, or a pattern with *.")] = None,
    since: Annotated[str | None, typer.Option(help="Only documents from then on: ISO time with zone.")] = None,
    until: Annotated[str | None, typer.Option(help="Only documents up to then.")] = None,
    types: Annotated[list[str] | None, typer.Option("--type", help="Only this type; may be given more than once.")] = None,
    half_life_days: Annotated[
        float | None, typer.Option(help="A journal entry, log or note so old counts half; rules never fade.")
    ] = None,
    db: Db = None, owner: Owner = None, as_json: Json = False, columns: ColumnNames = None,
) -> None:  # fmt: skip
    """Search an agent's documents."""
    with reporting(as_json), open_store(db, owner) as memory:
        chosen = {"slot": slot, "path": path, "since": since, "until": until, "types": types, "half_life_days": half_life_days}
        question: dict[str, Any] = {"agent": agent, "query": query, "limit": limit, "fusion": fusion}
        question |= {name: value for name, value in chosen.items() if value}
        print_operation(memory, "search_documents", question, as_json, columns)


@docs_app.command("eval", cls=Command)
def evaluate(
    corpus: Annotated[Path, typer.Option(help="corpus.jsonl(.gz): _id, title, text.")],
    queries: Annotated[Path, typer.Option(help="queries.jsonl(.gz): _id, text.")],
    qrels: Annotated[Path, typer.Option(help="qrels.tsv: query-id, corpus-id, score.")],
    slot: Judged = None, embedder: EmbedderName = None, fusion: Fused = "weighted",
    within: Annotated[str | None, typer.Option(help="Search only within documents that share this field with the query.")] = None,
    baseline: Baselines = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Evaluate the search on a data set in BEIR form."""
    with reporting(as_json):
        from memtape.lab.retrieval import evaluate_retrieval as judge

        chosen = _slot(slot, embedder)
        answer(judge(corpus, queries, qrels, slot=chosen, embedder=_embedder(embedder, chosen), within=within,
                     fusion=_fusion(fusion), baselines=baseline), as_json)  # fmt: skip


@docs_app.command("eval-spans", cls=Command)
def evaluate_spans(
    folder: Annotated[Path, typer.Option("--dir", help="The documents.")],
    questions: Annotated[Path, typer.Option(help="questions.jsonl(.gz): text, path, references.")],
    slot: Judged = None, embedder: EmbedderName = None, fusion: Fused = "weighted",
    rows: Annotated[str, typer.Option(help="all, odd or even: every second question only.")] = "all",
    baseline: Baselines = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Evaluate which lines the search returns."""
    with reporting(as_json):
        from memtape.lab.retrieval import evaluate_span_retrieval as judge

        chosen = _slot(slot, embedder)
        half: Any = rows
        answer(judge(folder, questions, slot=chosen, embedder=_embedder(embedder, chosen), fusion=_fusion(fusion), rows=half,
                     baselines=baseline), as_json)  # fmt: skip


def _slot(name: str | None, embedder: str | None) -> Any:
    """The slot to evaluate; naming an embedder selects the slot that uses one."""
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
