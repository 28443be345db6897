"""Ranking by words: BM25 of passages and of the documents around them, and how near the words of the question are to each other.

FTS5 finds the best passages of each table by its own `bm25()`, in one fast query. These few are scored again by one formula with
the counts of all searched tables together. If an agent's own documents and the shared ones are searched together, each table
alone would weigh a word by how common it is in that table, and a word that is common in the journal but rare in the playbooks
would lift the playbooks.

Also finds the passages that have a name.

All public functions run inside a transaction of the caller.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from memtape.documents.bm25 import K1, term_weight
from memtape.documents.cache import DocumentCache
from memtape.documents.endings import ELSEWHERE, says_that_it_ended
from memtape.documents.filters import EVERYTHING, DocumentFilter
from memtape.documents.names import Name
from memtape.documents.question import ParsedQuestion, WordCounts, any_word_query, choose_words, other_forms, split_words

RESCORED = 60  # passages of each table that are scored again, and those that FTS5 ranks the same as the last of them
DOCUMENT_WEIGHT = 0.05  # of BM25 of the document around a passage, compared with the passage
MAX_NAMED = 200  # passages with a name that are looked at
MAX_WORDS_BESIDE = 8  # a longer question describes something: a name in it is asked for only if hardly any passage has it
MAX_WORDS_BESIDE_DOUBTFUL = 3  # with more words beside it, what may be mere emphasis is no name
MAX_RARE = 1  # so many passages have it then
MAX_WORDS_OF_QUESTION = 12  # of what is longer, the names count like its other words
MAX_DEFINITIONS = 2  # passages that say what a thing is
MAX_NAMES = 4  # a question with more names describes something and does not ask for one of them
SYNONYM_WEIGHT = 0.3  # of a word that the question does not have, compared with one that it has
# "Stop using X" asks about X. In notes on trading, "stop" is mostly an order, and nearly every note uses something.
ASIDE_WEIGHT = 0.5
# Filters the rows that a full-text query has found. The plus keeps SQLite from looking up each listed row instead.
_ONLY_ROWS = "AND +rowid IN (SELECT value FROM json_each(?))"

Rows = list[Any]
Terms = Sequence[tuple[str, float]]  # words, each with its weight


def search_terms(cache: DocumentCache, scopes: Sequence[int], question: ParsedQuestion) -> WordCounts:
    """Returns the words of a question to search for."""
    return choose_words(question, cache.stem, lambda stem: _frequency(cache, scopes, stem))


def _frequency(cache: DocumentCache, scopes: Sequence[int], stem: str) -> int:
    """Returns how many passages contain a stem."""
    total = 0
    for scope in scopes:
        rows: Rows = cache.connection.execute(f"SELECT doc FROM vocabulary_{scope} WHERE term = ?", (stem,)).fetchall()
        total += rows[0][0] if rows else 0
    return total


def rank_by_words(
    cache: DocumentCache,
    scopes: Sequence[int],
    question: ParsedQuestion,
    words: WordCounts,
    pool: int,
    only: DocumentFilter = EVERYTHING,
) -> dict[int, float]:
    """Returns the best passages for some words of a question, with their scores."""
    if not words:
        return {}
    terms = [(word, ASIDE_WEIGHT if word in question.asides else 1.0) for word, _ in words]
    own = {cache.stem(word) for word, _ in words}
    terms += [(word, SYNONYM_WEIGHT) for word in question.synonyms if cache.stem(word) not in own]
    found = {scope: _best_passages(cache, scope, terms, pool, only) for scope in scopes}
    # What says that something was given up may have little else of the question: all that was found is looked at.
    best = {scope: rows if question.ended else rows[: _cut(rows)] for scope, rows in found.items() if rows}
    scores = _scores(cache, question, terms, {scope: [chunk for chunk, _ in rows] for scope, rows in best.items()})
    # The rest follow behind, in the order and at the distance of FTS5's scores.
    for scope, leading in best.items():
        last, last_score = leading[-1][1], min(scores[chunk] for chunk, _ in leading)
        scores |= {chunk: last_score * score / last if last else 0.0 for chunk, score in found[scope][len(leading) :]}
    if len(scores) <= pool:
        return scores
    return dict(sorted(scores.items(), key=lambda each: (-each[1], each[0]))[:pool])


def _cut(rows: Sequence[tuple[int, float]]) -> int:
    """Returns how many of the best passages of a table are scored again.

    >>> _cut([(number, 1.0) for number in range(99)]), _cut([(number, 1 / (number + 1)) for number in range(99)])
    (99, 60)
    """
    if len(rows) <= RESCORED:
        return len(rows)
    least = round(rows[RESCORED - 1][1], 9)
    return sum(round(score, 9) >= least for _, score in rows)


def _best_passages(cache: DocumentCache, scope: int, terms: Terms, limit: int, only: DocumentFilter) -> list[tuple[int, float]]:
    """Returns the passages of one scope that FTS5 ranks first, with its scores."""
    table = f"words_{scope}"
    condition, values = only.of_rows(scope)
    # `bm25()` and not `rank`, which is the same figure at a higher price: FTS5 would run a second statement inside the first one
    # to sort its rows.
    sql = (
        f"SELECT rowid, -bm25({table}) AS score FROM {table} WHERE {table} MATCH ? {condition} ORDER BY score DESC, rowid LIMIT ?"
    )
    query = any_word_query(word for word, _ in terms)
    rows: list[tuple[int, float]] = cache.connection.execute(sql, (query, *values, limit)).fetchall()  # type: ignore[assignment]
    return rows


def _scores(
    cache: DocumentCache, question: ParsedQuestion, terms: Terms, wanted: Mapping[int, Sequence[int]]
) -> dict[int, float]:
    """Returns the scores of the wanted passages of each scope, with the counts of all of these scopes together."""
    tables = {f"words_{scope}": chunks for scope, chunks in wanted.items()}
    row_count, average_length = _joint_size(cache, tables)
    rarity = [term_weight(row_count, sum(_count(cache, table, f'"{word}"') for table in tables)) for word, _ in terms]
    # A rare word that the question does not have counts no more than the most common one that it has; another form of a verb, no
    # more than that verb.
    own = {word: each for (word, _), each in zip(terms, rarity, strict=True) if word not in question.synonyms}
    most_of = {form: each for word, each in own.items() for form in other_forms(word)}
    least = min((each for word, each in own.items() if word not in question.asides), default=0.0)
    weights = [
        share * (min(each, most_of.get(word, least)) if word in question.synonyms else each)
        for (word, share), each in zip(terms, rarity, strict=True)
    ]
    positions = {word: at for at, (word, _) in enumerate(terms)}
    by_stem = {cache.stem(word): at for word, at in positions.items()}
    pairs = [
        (by_stem[one], by_stem[other])
        for one, other in ((cache.stem(one), cache.stem(other)) for one, other in question.neighbours)
        if one in by_stem and other in by_stem and one != other
    ]
    query = any_word_query(word for word, _ in terms)
    passages = _weighed(cache, tables, query, (average_length, json.dumps(weights), json.dumps(list(dict.fromkeys(pairs)))))
    around = {scope: _documents_around(cache, chunks) for scope, chunks in wanted.items()}
    wholes = {f"whole_{scope}": set(documents.values()) for scope, documents in around.items() if documents}
    # Words are weighed as in passages: too few documents may have several passages to tell how common a word is.
    documents = _weighed(cache, wholes, query, (_joint_size(cache, wholes)[1], json.dumps(weights), "[]"))
    document_of = {chunk: document for each in around.values() for chunk, document in each.items()}
    # A passage that is its whole document counts for both.
    scores = {
        chunk: score + DOCUMENT_WEIGHT * documents.get(document_of.get(chunk, 0), score) for chunk, score in passages.items()
    }
    # However often a passage has the words of the question, one that says that it was given up comes first.
    most = (K1 + 1) * sum(weights) / ELSEWHERE
    for chunk, share in _saying_that_it_ended(cache, question, passages).items():
        scores[chunk] += most * share
    return scores


def _saying_that_it_ended(cache: DocumentCache, question: ParsedQuestion, chunks: Collection[int]) -> dict[int, float]:
    """Returns the passages that say that what the question asks about was given up, each with the share of it that they name."""
    subject = {cache.stem(word) for word in question.ended}
    if not subject:
        return {}

    def stems(text: str) -> set[str]:
        return {cache.stem(word) for word in split_words(text)}

    sql = (
        "SELECT c.id, d.path, c.headings, c.text FROM chunks c CROSS JOIN documents d ON d.id = c.document "
        "WHERE c.id IN (SELECT value FROM json_each(?))"
    )
    rows: Rows = cache.connection.execute(sql, (str(list(chunks)),)).fetchall()
    shares = {chunk: says_that_it_ended(text, f"{path} {headings}", subject, stems) for chunk, path, headings, text in rows}
    return {chunk: share for chunk, share in shares.items() if share}


def _weighed(
    cache: DocumentCache, tables: Mapping[str, Collection[int]], query: str, values: tuple[float, str, str]
) -> dict[int, float]:
    """Returns the scores of some rows of each table."""
    scores: dict[int, float] = {}
    for table, rows in tables.items():
        sql = f"SELECT rowid, weighed({table}, ?, ?, ?) FROM {table} WHERE {table} MATCH ? {_ONLY_ROWS}"
        scores.update(cache.connection.execute(sql, (*values, query, str(list(rows)))))
    return scores


def _documents_around(cache: DocumentCache, chunks: Sequence[int]) -> dict[int, int]:
    """Returns the documents of those passages that are not all of their document."""
    sql = (
        "SELECT c.id, c.document FROM chunks c INDEXED BY chunks_in_short CROSS JOIN documents d ON d.id = c.document "
        "WHERE c.id IN (SELECT value FROM json_each(?)) AND d.chunks > 1"
    )
    rows: Rows = cache.connection.execute(sql, (str(list(chunks)),)).fetchall()
    return dict(rows)


def _joint_size(cache: DocumentCache, tables: Iterable[str]) -> tuple[int, float]:
    """Returns how many rows some full-text tables have together, and the average number of words in a row."""
    rows, words = (sum(each) for each in zip((0, 0), *(_table_size(cache, table) for table in tables), strict=True))
    return rows, words / rows if rows else 1.0


def _table_size(cache: DocumentCache, table: str) -> tuple[int, int]:
    """Returns how many rows a full-text table has, and how many words they have together."""
    # FTS5 keeps both as the first numbers of its "averages" record, which is missing while the table is empty. Counting the rows
    # would take a scan.
    rows: Rows = cache.connection.execute(f"SELECT block FROM {table}_data WHERE id = 1").fetchall()
    numbers = _varints(rows[0][0]) if rows else []
    return sum(numbers[:1]), sum(numbers[1:])


def _varints(block: bytes) -> list[int]:
    """Decodes SQLite's variable-length integers.

    >>> _varints(bytes([5, 0x81, 0x00]))
    [5, 128]
    """
    numbers, value, length = [], 0, 0
    for byte in block:
        length += 1
        if length == 9:
            numbers.append(value << 8 | byte)
            value = length = 0
            continue
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(value)
            value = length = 0
    return numbers


def _count(cache: DocumentCache, table: str, query: str) -> int:
    rows: Rows = cache.connection.execute(f"SELECT count(*) FROM {table} WHERE {table} MATCH ?", (query,)).fetchall()
    return int(rows[0][0])


class NamedPassages(NamedTuple):
    """The passages that have what a question names."""

    having: tuple[frozenset[int], ...] = ()  # for each thing, the passages that have it
    defining: frozenset[int] = frozenset()  # those of them that say what it is: a list, a table or a heading with it


def find_named(
    cache: DocumentCache,
    scopes: Sequence[int],
    question: ParsedQuestion,
    found: Collection[int],
    only: DocumentFilter = EVERYTHING,
) -> NamedPassages:
    """Returns, for each thing that a question names, the passages that have it; nothing for a question with many names.

    `found` are the passages that its words found. If a name is too common to look at every passage with it, only these are.
    """
    if not question.names or len(question.names) > MAX_NAMES:
        return NamedPassages()
    beside = question.words_beside_names
    if len(beside) > MAX_WORDS_OF_QUESTION:
        return NamedPassages()
    names = [name for name in question.names if not (name.is_doubtful and len(beside) > MAX_WORDS_BESIDE_DOUBTFUL)]
    named = [_with_name(cache, scopes, name, found, only) for name in names]
    most = MAX_RARE if len(beside) > MAX_WORDS_BESIDE else None
    wanted = [passages for passages in named if passages.having[0] and (most is None or len(passages.having[0]) <= most)]
    # What many passages begin with is no definition: a row of a table of results, a line of a log.
    defining = [passages.defining for passages in wanted if len(passages.defining) <= MAX_DEFINITIONS]
    return NamedPassages(tuple(passages.having[0] for passages in wanted), frozenset().union(*defining))


def _with_name(
    cache: DocumentCache, scopes: Sequence[int], name: Name, found: Collection[int], only: DocumentFilter
) -> NamedPassages:
    query = _name_query(name)
    condition, values = only.of_documents()
    columns = "SELECT c.id, d.path, c.headings, c.text"
    rows: Rows = []
    for scope in scopes if query else ():
        table = f"words_{scope}"
        sql = (
            f"{columns} FROM (SELECT rowid AS found FROM {table} WHERE {table} MATCH ? LIMIT {MAX_NAMED}) "
            f"CROSS JOIN chunks c ON c.id = found CROSS JOIN documents d ON d.id = c.document {condition}"
        )
        some: Rows = cache.connection.execute(sql, (query, *values)).fetchall()
        if len(some) == MAX_NAMED:
            sql = (
                f"{columns} FROM chunks c CROSS JOIN documents d ON d.id = c.document "
                "WHERE c.id IN (SELECT value FROM json_each(?))"
            )
            rows = cache.connection.execute(sql, (str(list(found)),)).fetchall()
            break
        rows += some
    having, defining = set[int](), set[int]()
    # The full-text table knows words only: punctuation, capitals and word borders are checked here.
    for chunk, path, headings, text in rows:
        whole = f"{headings}\n{text}"
        if name.is_item_in(text, f"{path}\n{headings}") or name.is_defined_in(whole):
            defining.add(chunk)
        if chunk in defining or name.is_in(whole) or name.is_in_path(path):
            having.add(chunk)
    return NamedPassages((frozenset(having),), frozenset(defining))


def _name_query(name: Name) -> str:
    """Returns an FTS5 query for the passages that may have a name; empty for a name without a word.

    >>> from memtape.documents.names import find_names
    >>> [_name_query(name) for text in ("L47", "Rule 16", "RISK-NOTES.md") for name in find_names(text)]
    ['"l47" OR "l 47"', '"rule 16" OR ((head : "rule") AND "16")', '"risk notes md" OR (head : "risk notes")']
    """
    parts = dict.fromkeys(f'"{words}"' for part in name.spellings if (words := " ".join(split_words(part))))
    # A common word is asked for only where it counts: too many passages could have it for all to be looked at. A file is also
    # found by its name without the ending, as the index has it in its head; what is a list of rules says so there too.
    more: list[str] = []
    if name.is_file and (stem := " ".join(split_words(name.text.rpartition(".")[0]))):
        more.append(f'(head : "{stem}")')
    if name.list_item:
        more.append('((head : "{}") AND "{}")'.format(*name.list_item))
    return " OR ".join([*parts, *more])
