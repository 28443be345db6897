"""Vectors are told of truthfully: one model answers at a time, the old one until the new one has all, and what has none is said."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.documents import vector_matrix
from memtape.documents.cache import SHARED_SCOPE
from memtape.documents.index import DocumentIndex, ModelCoverage
from memtape.documents.index_writer import Document
from memtape.documents.search import search_index
from memtape.plugs.embedder import StaticEmbedder
from tests.documents.desk import NOON, Letters, put, sync, write
from tests.faults.processes import fork, together

NOTES = {f"{n}.md": f"note {n} of gold" for n in range(100)}


@pytest.fixture
def index(tmp_path):
    made = DocumentIndex(tmp_path / "documents.db")
    yield made
    made.close()


class Failing(Letters):
    """Answers so many batches, then no more."""

    def __init__(self, id: str, batches: int, **more) -> None:
        super().__init__(id, **more)
        self.batches = batches

    def embed(self, texts):
        self.batches -= 1
        if self.batches < 0:
            raise OSError("connection refused")
        return super().embed(texts)


def ask(index, question="gold", **more):
    return search_index(index, question, owner="ann", agent="gold", slot="hybrid_embeddings", **more)


def had(*embedders):
    return {each.id: each for each in embedders}.get


# --- a new model ----------------------------------------------------------------------------------------------------------


def test_the_old_model_answers_until_the_new_one_has_all_and_the_answer_says_so(index):
    old, new = Letters("old"), Letters("new", dim=52)
    put(index, NOTES, embedder=old)
    by_the_old = ask(index, embedder=old)
    index.fill("ann", "gold", Failing("new", 1, dim=52))

    told = ask(index, embedder=new, previous=had(old))
    assert (told.slot, told.model, told.missing, told.hits) == ("hybrid_embeddings", "old", 36, by_the_old.hits)
    assert "new" in told.note and "36 passages" in told.note and "old answered" in told.note

    index.fill("ann", "gold", new)
    told = ask(index, embedder=new, previous=had(old))
    assert (told.model, told.missing, told.note) == ("new", 0, "")


@pytest.mark.parametrize("previous", [None, had(), had(Letters("old", broken=True))])
def test_where_the_old_model_cannot_be_had_the_words_answer_and_say_how_many_vectors_are_missing(index, previous):
    put(index, NOTES, embedder=Letters("old"))
    told = ask(index, embedder=Letters("new"), previous=previous)
    assert (told.slot, told.model, told.missing) == ("sqlite_fts", "", 100)
    assert "words alone" in told.note and "100 passages" in told.note
    assert told.hits == search_index(index, "gold", owner="ann", agent="gold").hits


def test_a_model_that_calls_itself_otherwise_is_not_taken_for_the_old_one(index):
    put(index, NOTES, embedder=Letters("old"))
    assert ask(index, embedder=Letters("new"), previous=lambda id: Letters("newer")).slot == "sqlite_fts"


def test_the_old_model_answers_for_an_agent_until_the_shared_documents_have_the_new_one_too(index):
    old, new = Letters("old"), Letters("new")
    put(index, NOTES, embedder=old)
    put(index, {"global/book.md": "a playbook on gold"}, agent=SHARED_SCOPE, embedder=old)
    put(index, {"other.md": "silver"}, agent="silver", embedder=old)
    assert index.fill("ann", "gold", new).complete
    told = ask(index, embedder=new, previous=had(old))
    assert (told.model, told.missing) == ("old", 1)

    assert index.fill("ann", SHARED_SCOPE, new).complete
    assert ask(index, embedder=new, previous=had(old)).model == "new"
    assert index.health("ann", "gold").models == ("new",)
    other = search_index(index, "silver", owner="ann", agent="silver", slot="hybrid_embeddings", embedder=new, previous=had(old))
    assert other.model == "old", "the shared documents keep the old vectors while an agent needs them"

    assert index.fill("ann", "silver", new).complete
    with index.cache.reading() as connection:
        assert connection.execute("SELECT DISTINCT model FROM vectors").fetchall() == [("new",)]


def test_health_tells_how_far_each_model_has_come(index):
    put(index, NOTES, embedder=Letters("old"))
    assert index.health("ann", "gold").coverage == (ModelCoverage("old", 100, 100, answers=True),)
    index.fill("ann", "gold", Failing("new", 1))
    put(index, {"later.md": "one more on gold"})
    assert index.health("ann", "gold").coverage == (
        ModelCoverage("new", 64, 101, answers=False),
        ModelCoverage("old", 100, 101, answers=True),
    )


# --- new passages -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fusion", ["weighted", "reciprocal"])
def test_a_note_without_a_vector_is_found_by_its_words_and_the_others_by_both(index, fusion):
    model = StaticEmbedder()
    put(index, NOTES, embedder=model)
    put(index, {"today.md": "gold slipped through the stop at the open"})
    told = ask(index, "gold slipped through the stop", embedder=model, fusion=fusion)
    assert (told.slot, told.model, told.missing) == ("hybrid_embeddings", model.id, 1)
    assert "1 passage has no vector" in told.note
    assert told.hits[0].path == "today.md" and told.hits[0].source == "fts" and "no vector yet" in told.hits[0].reason
    assert told.hits[1].source == "both"

    index.fill("ann", "gold", model)
    told = ask(index, "gold slipped through the stop", embedder=model, fusion=fusion)
    assert (told.missing, told.note, told.hits[0].path, told.hits[0].source) == (0, "", "today.md", "both")


def test_the_same_words_in_another_agents_note_have_their_vector_from_it(index):
    put(index, {"a.md": "gold"}, agent="gold", embedder=Letters())
    put(index, {"b.md": "silver faded"}, agent="gold")
    assert ask(index, "silver", embedder=Letters()).missing == 1
    put(index, {"c.md": "silver faded"}, agent="silver", embedder=Letters())
    assert ask(index, "silver", embedder=Letters()).missing == 0


def test_a_note_that_went_while_it_was_embedded_leaves_no_vector(index):
    class Slow(Letters):
        def embed(self, texts):
            index.sync("ann", "gold", [], now=NOON)
            return super().embed(texts)

    put(index, {"a.md": "gold"})
    index.fill("ann", "gold", Slow())
    with index.cache.reading() as connection:
        assert connection.execute("SELECT count(*) FROM vectors").fetchall() == [(0,)]


# --- never mixed ------------------------------------------------------------------------------------------------------------


class Shifted(Letters):
    """A model of the same size as another, that sees every letter as a later one."""

    def __init__(self, shift: int, **more) -> None:
        super().__init__(f"shifted-{shift}", **more)
        self.shift = shift

    def embed(self, texts):
        return np.roll(super().embed(texts), self.shift, axis=1)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(["gold", "silver", SHARED_SCOPE]), st.sampled_from("abcdef"), st.sampled_from(["stop", "fade", "long"])),
        st.tuples(st.just("fill"), st.sampled_from(["gold", "silver", SHARED_SCOPE]), st.integers(0, 2), st.booleans()),
    ),
    max_size=12,
)  # fmt: skip


@given(steps)
def test_vectors_of_two_models_are_never_compared_whatever_happens_in_whatever_order(done):
    index = DocumentIndex(":memory:")
    models = [Shifted(shift) for shift in range(3)]
    for kind, agent, which, how in done:
        if kind == "put":
            index.put("ann", agent, [Document(f"{which}.md", "note", 3, f"{which} {how} {which * 5}")], now=NOON)
        else:
            index.fill("ann", agent, Shifted(which, broken=how))
        for asked in models:
            told = ask(index, "stop fade", embedder=asked, previous={each.id: each for each in models}.get)
            if told.slot == "hybrid_embeddings":
                assert told.model == asked.id or f"{told.model} answered" in told.note
    chunks = {agent: index.health("ann", agent).chunks for agent in ("gold", "silver", SHARED_SCOPE)}
    with index.cache.reading() as connection:
        texts = dict(connection.execute("SELECT hash, text FROM chunks").fetchall())
        for model in models:
            for scope, agent in connection.execute("SELECT id, agent FROM scopes").fetchall():
                held = vector_matrix._read_matrix(index.cache, [scope], model.id, model.dim)
                hashes = [
                    connection.execute("SELECT hash FROM chunks WHERE id = ?", (int(chunk),)).fetchall()[0][0]
                    for chunk in held.chunks
                ]
                if hashes:
                    np.testing.assert_allclose(held.rows, model.embed([texts[each] for each in hashes]), atol=1e-6)
                assert held.missing + len(hashes) == chunks[agent]
    index.close()


# --- processes --------------------------------------------------------------------------------------------------------------


def test_a_process_killed_while_it_embeds_leaves_the_old_model_to_answer_and_its_work_to_the_next(tmp_path):
    path = tmp_path / "documents.db"
    first = DocumentIndex(path)
    notes = {f"{n}.md": f"note {n} of gold" for n in range(320)}
    put(first, notes, embedder=Letters("old"))
    first.close()
    ready, told = os.pipe()

    class Slow(Letters):
        def embed(self, texts):
            if len(self.asked) >= 128:
                os.write(told, b"x")
                time.sleep(60)
            return super().embed(texts)

    pid = fork(lambda: DocumentIndex(path).fill("ann", "gold", Slow("new")))
    assert os.read(ready, 1) == b"x"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(ready)
    os.close(told)

    index = DocumentIndex(path)
    told = ask(index, embedder=Letters("new"), previous=had(Letters("old")), limit=100)
    assert (told.model, told.missing, len(told.hits)) == ("old", 192, 100)
    again = Letters("new")
    assert index.fill("ann", "gold", again).complete and len(again.asked) == 192
    assert ask(index, embedder=again).model == "new"
    index.close()


def test_two_processes_that_bring_one_agent_in_step_at_once_leave_it_whole(tmp_path):
    path = tmp_path / "documents.db"
    work = write(tmp_path / "work", {f"{n}.md": f"# Note {n}\ngold on day {n}\n" for n in range(150)})
    DocumentIndex(path).close()

    def come():
        mine = DocumentIndex(path)
        sync(mine, work, embedder=Letters())
        mine.close()

    for change in range(3):
        write(work, {f"{n}.md": f"# Note {n}\nsilver{change} on day {n}\n" for n in range(0, 150, change + 2)})
        assert together([come, come, come]) == [0, 0, 0]
        index = DocumentIndex(path)
        told = ask(index, f"silver{change}", embedder=Letters(), limit=100)
        assert (told.slot, told.missing, index.health("ann", "gold").documents) == ("hybrid_embeddings", 0, 150)
        named = search_index(index, f"silver{change}", owner="ann", agent="gold", limit=100).hits
        assert {hit.path for hit in named} == {f"{n}.md" for n in range(0, 150, change + 2)}
        assert sync(index, work).read == 0
        index.close()
