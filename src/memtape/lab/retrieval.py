"""`memtape docs eval` and `eval-spans`: how well document memory finds what somebody judged to be the answer.

`evaluate_retrieval` takes a set in BEIR form (a corpus, queries, judgments), puts every text of the corpus into an index and
asks every judged query through the search that agents use, chunks and all; a document stands where the first of its passages
stands. Figures are means over the queries:

- nDCG@10 with linear gain: Σ gain / log₂(place + 1), as a share of the best order there is;
- recall@10: the share of the relevant documents that are among the first ten;
- MRR@10: one over the place of the first relevant one.

`within` names a field of corpus and queries (a conversation, a tenant): a query is asked only among texts that have its value,
each such group being a scope of its own, as agents are.

`evaluate_span_retrieval` takes a folder of documents and questions with the exact passages that answer them: of the characters
in those passages, how many do the first five hits cover (recall), and how much of what was returned is answer (precision).

>>> ndcg(["b", "a"], {"a": 1.0})
0.6309297535714575
>>> reciprocal(["b", "a"], {"a": 1.0}), recalled(["b", "a"], {"a": 1.0, "c": 1.0})
(0.5, 0.5)
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from memtape.core.statistics import mean
from memtape.documents.fusion import Fusion
from memtape.documents.index import DocumentIndex
from memtape.documents.index_writer import Document
from memtape.documents.search import MAX_HITS, Slot, search_index
from memtape.documents.sources import DocumentFolder
from memtape.errors import Invalid
from memtape.plugs.embedder import Embedder

K, SPANS = 10, 5
OWNER = "lab"
MOMENT = datetime(2000, 1, 1, tzinfo=UTC)  # an index notes when it was made; no figure depends on it
Judgments = Mapping[str, float]


def evaluate_retrieval(
    corpus: Path, queries: Path, qrels: Path, *, slot: Slot = "sqlite_fts", embedder: Embedder | None = None,
    within: str | None = None, fusion: Fusion = "weighted",
) -> dict[str, float | int]:  # fmt: skip
    """The figures of a set in BEIR form."""
    judged = _judgments(qrels)
    asked = {str(each["_id"]): each for each in _records(queries)}
    unknown = sorted(judged.keys() - asked.keys())
    if unknown:
        raise Invalid("qrels", f"the query {unknown[0]} is judged but not asked", "Name the queries that belong to it")
    index = DocumentIndex(":memory:")
    try:
        _put(index, corpus, within, embedder if slot == "hybrid_embeddings" else None)

        def ask(query: str) -> list[str]:
            text, group = str(asked[query]["text"]), _group(asked[query], within)
            for limit in (
                2 * K,
                MAX_HITS,
            ):  # the first hits do not depend on how many are asked for: more only if documents repeat
                found = search_index(
                    index, text, owner=OWNER, agent=group, slot=slot, embedder=embedder, limit=limit, fusion=fusion
                )
                if found.slot != slot:
                    raise Invalid("embedder", found.note, "Choose another, or the slot sqlite_fts")
                paths = list(dict.fromkeys(hit.path for hit in found.hits))
                if len(paths) >= K or len(found.hits) < limit:
                    break
            return paths[:K]

        return _figures(judged, ask)
    finally:
        index.close()


def _figures(judged: Mapping[str, Judgments], ask: Callable[[str], list[str]]) -> dict[str, float | int]:
    told: list[tuple[float, float, float]] = []
    took: list[float] = []
    for query, relevant in judged.items():
        start = perf_counter()
        found = ask(query)
        took.append(1000 * (perf_counter() - start))
        told.append((ndcg(found, relevant), recalled(found, relevant), reciprocal(found, relevant)))
    gains, shares, places = zip(*told, strict=True)
    took.sort()
    half, most = (round(took[min(len(took) * share // 100, len(took) - 1)], 3) for share in (50, 95))
    return {
        "ndcg@10": round(mean(gains), 6), "recall@10": round(mean(shares), 6), "mrr@10": round(mean(places), 6),
        "queries": len(told), "p50_ms": half, "p95_ms": most,
    }  # fmt: skip


def _put(index: DocumentIndex, corpus: Path, within: str | None, embedder: Embedder | None) -> None:
    """Each group of the corpus into an index of its own."""
    groups: dict[str, list[Document]] = {}
    for each in _records(corpus):
        title, text = str(each.get("title") or ""), str(each.get("text") or "")
        headed = f"# {' '.join(title.split())}\n\n{text}" if title.strip() else text  # a page as somebody would write it
        document = Document(str(each["_id"]), "note", 3, _plain(headed))
        groups.setdefault(_group(each, within), []).append(document)
    for group, documents in groups.items():
        index.put(OWNER, group, documents, now=MOMENT)
        if embedder is not None and (filled := index.fill(OWNER, group, embedder)).problem:
            raise Invalid("embedder", filled.problem, "Choose another, or the slot sqlite_fts")


def _group(record: Mapping[str, Any], within: str | None) -> str:
    if within is None:
        return "all"
    if within not in record:
        raise Invalid("within", f"{record['_id']} has no field {within}", "Name a field of both corpus and queries")
    return f"{record[within]}"


def ndcg(found: Sequence[str], relevant: Judgments, k: int = K) -> float:
    """The gain of a list, as a share of the best list's; each gain counts less the further down it stands."""
    best = sorted(relevant.values(), reverse=True)
    return _gain([relevant.get(each, 0.0) for each in found[:k]]) / _gain(best[:k])


def _gain(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(at + 2) for at, gain in enumerate(gains))


def recalled(found: Sequence[str], relevant: Judgments, k: int = K) -> float:
    """The share of what is relevant that was found."""
    return len(relevant.keys() & set(found[:k])) / len(relevant)


def reciprocal(found: Sequence[str], relevant: Judgments, k: int = K) -> float:
    """One over the place of the first that is relevant."""
    return next((1 / (at + 1) for at, each in enumerate(found[:k]) if each in relevant), 0.0)


# --- spans ------------------------------------------------------------------------------------------------------------------


def evaluate_span_retrieval(
    folder: Path, questions: Path, *, slot: Slot = "sqlite_fts", embedder: Embedder | None = None, fusion: Fusion = "weighted"
) -> dict[str, float | int]:
    """How much of the answers the first five hits cover, and how much of the hits is answer."""
    index = DocumentIndex(":memory:")
    try:
        used = embedder if slot == "hybrid_embeddings" else None
        index.sync(OWNER, "all", [DocumentFolder(folder)], now=MOMENT, embedder=used)
        told = []
        for each in _records(questions):
            question = str(each["text"])
            found = search_index(index, question, owner=OWNER, agent="all", slot=slot, embedder=used, limit=SPANS, fusion=fusion)
            returned = [(hit.path, hit.start, hit.end) for hit in found.hits]
            told.append(covered(returned, [(each["path"], ref["start_char"], ref["end_char"]) for ref in each["references"]]))
    finally:
        index.close()
    if not told:
        raise Invalid("questions", "there are none", "Name a file with one question a line")
    recall, precision = zip(*told, strict=True)
    return {"span_recall@5": round(mean(recall), 6), "span_precision@5": round(mean(precision), 6), "questions": len(told)}


Span = tuple[str, int, int]


def covered(returned: Sequence[Span], wanted: Sequence[Span]) -> tuple[float, float]:
    """The share of the wanted characters that were returned, and of the returned that were wanted.

    >>> covered([("a.md", 0, 10), ("a.md", 5, 20)], [("a.md", 15, 25)])
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
    """One JSON object a line."""
    for number, line in enumerate(_lines(file), 1):
        try:
            record = json.loads(line)
            if not isinstance(record, dict) or not {"_id", "text"} <= record.keys():
                raise ValueError("no _id or no text")
        except ValueError as error:
            problem = f"line {number} of {file} is not a record: {error}"
            raise Invalid("file", problem, "One JSON object a line, with _id and text") from None
        yield record


def _judgments(file: Path) -> dict[str, dict[str, float]]:
    """What is relevant for each query, and how much; BEIR's three columns or TREC's four, with or without a heading."""
    judged: dict[str, dict[str, float]] = {}
    for number, line in enumerate(_lines(file), 1):
        cells = line.rstrip("\r\n").split("\t") if "\t" in line else line.split()
        try:
            query, document, score = cells[0], cells[-2], float(cells[-1])
        except (IndexError, ValueError):
            if number == 1:
                continue  # the heading
            problem = f"line {number} of {file} is not a judgment"
            raise Invalid("qrels", problem, "query-id, corpus-id and score, by tabs") from None
        if score > 0:
            judged.setdefault(query, {})[document] = score
    if not judged:
        raise Invalid("qrels", f"{file} judges nothing to be relevant", "query-id, corpus-id and score, by tabs")
    return judged


def _plain(text: str) -> str:
    """Half a surrogate pair, which JSON can hold and no file can, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
