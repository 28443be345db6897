"""`memtape docs eval` and `eval-spans`: the quality of document search, measured against judged answers.

`evaluate_retrieval` reads a set in BEIR form (a corpus, queries, judgments), indexes the corpus and asks every judged query
through the search that agents use. The rank of a document is that of its first passage. Figures are means over the queries:

- nDCG@10 with linear gain: Σ gain / log₂(rank + 1), as a share of the best possible order;
- recall@10: the share of the relevant documents that are among the first ten;
- MRR@10: one over the rank of the first relevant document.

`within` names a field of corpus and queries (a conversation, a tenant): a query searches only the texts with its value. Each such
group is a scope of its own, like an agent.

`evaluate_span_retrieval` reads a folder of documents and questions with the exact passages that answer them. Recall is the share
of the characters in those passages that the first five hits cover; precision is the share of the returned characters that answer.
Where the answers are given by lines, hit@k counts the questions that one of the first k hits answers. Baselines are in
`documents.plain_rankings`.

>>> ndcg(["b", "a"], {"a": 1.0})
0.6309297535714575
>>> reciprocal_rank(["b", "a"], {"a": 1.0}), recall_at(["b", "a"], {"a": 1.0, "c": 1.0})
(0.5, 0.5)
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from memtape.core.statistics import mean
from memtape.documents.file_changes import path_words
from memtape.documents.fusion import Fusion
from memtape.documents.index import DocumentIndex
from memtape.documents.index_writer import Document
from memtape.documents.plain_rankings import BASELINES, IndexedPassage, RetrievalBaseline, indexed_passages
from memtape.documents.search import MAX_HITS, SearchHit, search_index
from memtape.documents.slots import Slot
from memtape.documents.sources import DocumentFolder
from memtape.errors import Invalid
from memtape.plugs.embedder import Embedder

RANK_CUTOFF, SPAN_HITS = 10, 5
OWNER = "lab"
INDEX_TIME = datetime(2000, 1, 1, tzinfo=UTC)  # an index stores its time; no figure depends on it
Judgments = Mapping[str, float]
Rows = Literal["all", "odd", "even"]
ROWS = ("all", "odd", "even")


def evaluate_retrieval(
    corpus: Path, queries: Path, qrels: Path, *, slot: Slot = "sqlite_fts", embedder: Embedder | None = None,
    within: str | None = None, fusion: Fusion = "weighted", baselines: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Returns the figures of a set in BEIR form; with `baselines`, also those of plain rankings of the same passages."""
    judged = _judgments(qrels)
    queries_by_id = {str(each["_id"]): each for each in _records(queries)}
    unknown = sorted(judged.keys() - queries_by_id.keys())
    if unknown:
        raise Invalid(
            "qrels", f"the query {unknown[0]} is judged but not in the queries", "Name the queries that belong to these judgments"
        )
    index = DocumentIndex(":memory:")
    try:
        _index_corpus(index, corpus, within, embedder if slot == "hybrid_embeddings" else None)

        def ask(query: str) -> list[str]:
            text, group = str(queries_by_id[query]["text"]), _group(queries_by_id[query], within)
            # The first hits do not depend on the limit. More hits are needed only if documents repeat.
            for limit in (2 * RANK_CUTOFF, MAX_HITS):
                found = search_index(
                    index, text, owner=OWNER, agent=group, slot=slot, embedder=embedder, limit=limit, fusion=fusion
                )
                if found.slot != slot:
                    raise Invalid("embedder", found.note, "Choose another embedder, or the slot sqlite_fts")
                paths = list(dict.fromkeys(hit.path for hit in found.hits))
                if len(paths) >= RANK_CUTOFF or len(found.hits) < limit:
                    break
            return paths[:RANK_CUTOFF]

        figures: dict[str, Any] = dict(_figures(judged, ask))
        if baselines:
            groups = {query: _group(queries_by_id[query], within) for query in judged}
            for name, baseline in BASELINES.items():
                ranked = {group: baseline(indexed_passages(index, OWNER, group)) for group in set(groups.values())}

                def ask_baseline(query: str, ranked: dict[str, RetrievalBaseline] = ranked) -> list[str]:
                    found = ranked[groups[query]].rank(str(queries_by_id[query]["text"]), MAX_HITS)
                    return list(dict.fromkeys(passage.path for passage in found))[:RANK_CUTOFF]

                figures[f"baseline_{name}"] = _figures(judged, ask_baseline)
        return figures
    finally:
        index.close()


def _figures(judged: Mapping[str, Judgments], ask: Callable[[str], list[str]]) -> dict[str, float | int]:
    figures: list[tuple[float, float, float]] = []
    times_ms: list[float] = []
    for query, relevant in judged.items():
        start = perf_counter()
        found = ask(query)
        times_ms.append(1000 * (perf_counter() - start))
        figures.append((ndcg(found, relevant), recall_at(found, relevant), reciprocal_rank(found, relevant)))
    gains, shares, places = zip(*figures, strict=True)
    times_ms.sort()
    half, most = (round(times_ms[min(len(times_ms) * share // 100, len(times_ms) - 1)], 3) for share in (50, 95))
    return {
        "ndcg@10": round(mean(gains), 6), "recall@10": round(mean(shares), 6), "mrr@10": round(mean(places), 6),
        "queries": len(figures), "p50_ms": half, "p95_ms": most,
    }  # fmt: skip


def _index_corpus(index: DocumentIndex, corpus: Path, within: str | None, embedder: Embedder | None) -> None:
    """Index each group of the corpus in a scope of its own."""
    groups: dict[str, list[Document]] = {}
    for each in _records(corpus):
        title, text = str(each.get("title") or ""), str(each.get("text") or "")
        headed = f"# {' '.join(title.split())}\n\n{text}" if title.strip() else text
        path = _encodable(str(each["_id"]))
        document = Document(path, "note", 3, _encodable(headed), path_words(path))
        groups.setdefault(_group(each, within), []).append(document)
    for group, documents in groups.items():
        index.put(OWNER, group, documents, now=INDEX_TIME)
        if embedder is not None and (filled := index.fill(OWNER, group, embedder)).problem:
            raise Invalid("embedder", filled.problem, "Choose another embedder, or the slot sqlite_fts")


def _group(record: Mapping[str, Any], within: str | None) -> str:
    if within is None:
        return "all"
    if within not in record:
        raise Invalid("within", f"{record['_id']} has no field {within}", "Name a field of both corpus and queries")
    return f"{record[within]}"


def ndcg(found: Sequence[str], relevant: Judgments, k: int = RANK_CUTOFF) -> float:
    """Returns the gain of a list as a share of the best list's gain. A gain counts less at a lower rank."""
    best = sorted(relevant.values(), reverse=True)
    return _gain([relevant.get(each, 0.0) for each in found[:k]]) / _gain(best[:k])


def _gain(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(at + 2) for at, gain in enumerate(gains))


def recall_at(found: Sequence[str], relevant: Judgments, k: int = RANK_CUTOFF) -> float:
    """Returns the share of the relevant documents that were found."""
    return len(relevant.keys() & set(found[:k])) / len(relevant)


def reciprocal_rank(found: Sequence[str], relevant: Judgments, k: int = RANK_CUTOFF) -> float:
    """Returns one over the rank of the first relevant document; 0 if there is none."""
    return next((1 / (at + 1) for at, each in enumerate(found[:k]) if each in relevant), 0.0)


# --- spans ------------------------------------------------------------------------------------------------------------------


def evaluate_span_retrieval(
    folder: Path, questions: Path, *, slot: Slot = "sqlite_fts", embedder: Embedder | None = None, fusion: Fusion = "weighted",
    rows: Rows = "all", baselines: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Returns how much of the answers the first five hits cover, and how much of the hits is answer.

    If the answers are given by lines, also how often one of the first hits has a line of the answer. `rows` takes every second
    question only, so that one half can be used for tuning and the other kept aside.
    """
    if rows not in ROWS:
        raise Invalid("rows", f"there is no half called {rows}", f"Choose one of {', '.join(ROWS)}")
    asked = [each for number, each in enumerate(_records(questions), 1) if rows in ("all", ("even", "odd")[number % 2])]
    if not asked:
        raise Invalid("questions", "the file is empty", "Name a file with one question per line")
    index = DocumentIndex(":memory:")
    try:
        used = embedder if slot == "hybrid_embeddings" else None
        index.sync(OWNER, "all", [DocumentFolder(folder)], now=INDEX_TIME, embedder=used)

        def search(question: str) -> Sequence[SearchHit | IndexedPassage]:
            limit = SPAN_HITS
            return search_index(
                index, question, owner=OWNER, agent="all", slot=slot, embedder=used, limit=limit, fusion=fusion
            ).hits

        figures: dict[str, Any] = _span_figures(asked, search)
        if baselines:
            passages = indexed_passages(index, OWNER, "all")
            for name, baseline in BASELINES.items():
                figures[f"baseline_{name}"] = _span_figures(asked, partial(baseline(passages).rank, limit=SPAN_HITS))
    finally:
        index.close()
    return figures


def _span_figures(
    questions: Sequence[Mapping[str, Any]], search: Callable[[str], Sequence[SearchHit | IndexedPassage]]
) -> dict[str, Any]:
    overlaps, first_places = [], []
    for each in questions:
        found, path = search(str(each["text"])), str(each["path"])
        if "start_char" in each["references"][0]:
            wanted = [(path, int(ref["start_char"]), int(ref["end_char"])) for ref in each["references"]]
            overlaps.append(span_overlap([(hit.path, hit.start, hit.end) for hit in found], wanted))
        if "start_line" in each["references"][0]:
            lines = [(int(ref["start_line"]), int(ref["end_line"])) for ref in each["references"]]
            first_places.append(first_answer(found, path, lines))
    figures: dict[str, Any] = {}
    if overlaps:
        recall, precision = zip(*overlaps, strict=True)
        figures = {"span_recall@5": round(mean(recall), 6), "span_precision@5": round(mean(precision), 6)}
    if first_places:
        figures |= {f"hit@{k}": sum(0 < place <= k for place in first_places) for k in (1, 3, SPAN_HITS)}
    return figures | {"questions": len(questions)}


def first_answer(found: Sequence[SearchHit | IndexedPassage], path: str, lines: Sequence[tuple[int, int]]) -> int:
    """Returns the place of the first hit with a line of the answer, counted from 1; 0 if there is none."""
    for place, hit in enumerate(found, 1):
        if hit.path == path and any(hit.start_line <= last and first <= hit.end_line for first, last in lines):
            return place
    return 0


Span = tuple[str, int, int]


def span_overlap(returned: Sequence[Span], wanted: Sequence[Span]) -> tuple[float, float]:
    """Returns the share of the wanted characters that were returned, and of the returned characters that were wanted.

    >>> span_overlap([("a.md", 0, 10), ("a.md", 5, 20)], [("a.md", 15, 25)])
    (0.5, 0.25)
    """
    have, want = _characters(returned), _characters(wanted)
    both = sum(len(want[path] & have[path]) for path in want.keys() & have.keys())
    return both / sum(map(len, want.values())), both / (sum(map(len, have.values())) or 1)


def _characters(spans: Sequence[Span]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for path, start, end in spans:
        found.setdefault(path, set()).update(range(start, end))
    return found


# --- files ------------------------------------------------------------------------------------------------------------------


def _lines(file: Path) -> Iterator[str]:
    try:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
            yield from (line for line in lines if line.strip())
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise Invalid("file", f"{file} cannot be read: {error}", "Name a JSONL or TSV file, plain or gzipped") from None


def _records(file: Path) -> Iterator[dict[str, Any]]:
    """Yields the JSON object of each line."""
    for number, line in enumerate(_lines(file), 1):
        try:
            record = json.loads(line)
            if not isinstance(record, dict) or not {"_id", "text"} <= record.keys():
                raise ValueError("no _id or no text")
        except ValueError as error:
            problem = f"line {number} of {file} is not a record: {error}"
            raise Invalid("file", problem, "Write one JSON object per line, with _id and text") from None
        yield record


def _judgments(file: Path) -> dict[str, dict[str, float]]:
    """Returns the relevant documents of each query with scores: BEIR's three columns or TREC's four, a header or none."""
    judged: dict[str, dict[str, float]] = {}
    for number, line in enumerate(_lines(file), 1):
        cells = line.rstrip("\r\n").split("\t") if "\t" in line else line.split()
        try:
            query, document, score = cells[0], cells[-2], float(cells[-1])
        except (IndexError, ValueError):
            if number == 1:
                continue  # the header
            problem = f"line {number} of {file} is not a judgment"
            raise Invalid("qrels", problem, "Give query-id, corpus-id and score, separated by tabs") from None
        if score > 0:
            judged.setdefault(query, {})[document] = score
    if not judged:
        raise Invalid("qrels", f"{file} has no relevant document", "Give query-id, corpus-id and score, separated by tabs")
    return judged


def _encodable(text: str) -> str:
    """Replaces half a surrogate pair, which JSON can contain and a file cannot, by a question mark."""
    return text.encode("utf-8", "replace").decode()
