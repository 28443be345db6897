"""The embedder minilm: it knows what traders mean, and a text has the same vector in any batch."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.compose import model_folders
from memtape.documents.index import DocumentIndex
from memtape.documents.index_writer import Document
from memtape.documents.search import search_index
from memtape.errors import Invalid, MissingExtra
from memtape.plugs import minilm
from memtape.plugs.embedder import Embedder, EmbedderSources, embedder_of, embedder_with_id
from memtape.plugs.minilm import MANIFEST, MODEL, NAME, TOKENIZER, WINDOW_TOKENS, MiniLM, split_tokens
from tests.conftest import NOON
from tests.plugs.meanings import ALIKE
from tools import build_minilm

pytest.importorskip("onnxruntime", reason="minilm needs its extra: run make setup")
MINILM = MiniLM(model_folders())
needs_model = pytest.mark.skipif(MINILM.folder is None, reason="minilm is not built: make setup could not fetch its weights")
# The model as it must come out of the weights on every machine; another needs another number in its name.
PINNED = f"{NAME}.7a352f448667"


def likeness(a, b):
    first, second = MINILM.embed([a, b])
    return float(first @ second)


# --- what it knows ------------------------------------------------------------------------------------------------------


@needs_model
@pytest.mark.parametrize(
    "note, alike, other",
    [
        *ALIKE,
        ("I gave back all my profits", "the winnings were lost again", "liquidity was thin over the holidays"),
    ],
)
def test_a_note_is_nearer_to_what_means_the_same_than_to_another_matter(note, alike, other):
    assert likeness(note, alike) > likeness(note, other) + 0.05


@needs_model
def test_it_reads_the_order_of_words_which_the_table_cannot():
    assert likeness("gold beat oil", "oil beat gold") < 0.999
    (first, second), table = (
        MINILM.embed(["gold beat oil", "oil beat gold"]),
        embedder_of("static").embed(["gold beat oil", "oil beat gold"]),
    )
    assert first.tobytes() != second.tobytes() and table[0].tobytes() == table[1].tobytes()


@needs_model
def test_the_pair_that_its_authors_publish_is_as_alike_as_they_say():
    assert likeness(*build_minilm.PAIR) == pytest.approx(0.755, abs=0.02)


# --- the same in any company --------------------------------------------------------------------------------------------


@needs_model
@given(st.lists(st.text(max_size=40), max_size=3))
def test_a_text_has_the_same_vector_alone_and_in_company(texts):
    together = MINILM.embed([*texts, "an outlier: " + "9" * 200])[: len(texts)]
    assert together.shape == (len(texts), 384) and together.dtype == np.float32
    for text, vector in zip(texts, together, strict=True):
        assert MINILM.embed([text])[0].tobytes() == vector.tobytes()


@needs_model
def test_two_threads_get_the_vectors_that_one_gets():
    notes = [f"note {n}: stop moved to {60_000 + 17 * n}" * (1 + n % 5) for n in range(20)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda note: MINILM.embed([note])[0].tobytes(), notes))
    assert found == [vector.tobytes() for vector in MINILM.embed(notes)]


@needs_model
def test_what_stands_at_the_end_of_a_long_note_counts_too():
    filler = "The session was quiet and nothing of interest happened on the desk. " * 40
    assert len(MINILM.tokens(filler)) > WINDOW_TOKENS
    assert likeness(filler + "Liquidated: margin call on gold.", "margin call") > likeness(filler, "margin call") + 0.02


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 12))
def test_the_parts_of_a_long_text_are_all_of_it_and_about_equally_long(tokens, window):
    found = split_tokens(tokens, window)
    assert [token for part in found for token in part] == tokens
    assert max(map(len, found)) <= window and max(map(len, found)) - min(map(len, found)) <= 1


# --- any text -----------------------------------------------------------------------------------------------------------


@needs_model
@given(st.text(max_size=60))
def test_a_vector_has_length_one_or_says_nothing_at_all(text):
    (vector,) = MINILM.embed([text])
    assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-6) or not vector.any()


@needs_model
@pytest.mark.parametrize("text", ["", " \n\t"])
def test_a_text_without_a_word_is_alike_to_nothing(text):
    assert not MINILM.embed([text]).any()


@needs_model
def test_half_a_surrogate_pair_is_read_as_a_question_mark():
    assert MINILM.embed(["short \ud83d gold"]).tobytes() == MINILM.embed(["short ? gold"]).tobytes()


@needs_model
def test_no_texts_give_no_rows():
    assert MINILM.embed([]).shape == (0, 384)


# --- which model it is --------------------------------------------------------------------------------------------------


@needs_model
def test_the_weights_give_the_same_model_on_every_machine():
    assert MINILM.id == PINNED and minilm.is_intact(MINILM.folder)


@needs_model
def test_a_model_whose_files_were_altered_is_refused(tmp_path):
    shutil.copytree(MINILM.folder, tmp_path / NAME)
    altered = bytearray((tmp_path / NAME / MODEL).read_bytes())
    altered[len(altered) // 2] ^= 1
    (tmp_path / NAME / MODEL).write_bytes(bytes(altered))
    with pytest.raises(Invalid, match=r"was altered after it was built.*memtape embedder build minilm"):
        MiniLM([tmp_path]).embed(["gold"])


@needs_model
def test_vectors_of_an_id_are_compared_by_the_model_that_made_them_wherever_it_is(tmp_path):
    assert MiniLM([tmp_path, *model_folders()]).id == MINILM.id
    found = embedder_with_id(MINILM.id, EmbedderSources(models=(tmp_path, *model_folders())))
    assert found is not None and found.id == MINILM.id
    assert embedder_with_id(MINILM.id, EmbedderSources(models=(tmp_path,))) is None
    assert embedder_with_id(f"{NAME}.000000000000", EmbedderSources(models=model_folders())) is None


# --- where it is missing ------------------------------------------------------------------------------------------------


def test_a_model_that_is_not_built_says_how_to_build_it_and_the_words_answer(tmp_path):
    absent: Embedder = MiniLM([tmp_path])
    assert (absent.id, absent.dim) == (NAME, 384) and embedder_with_id(absent.id, EmbedderSources(models=(tmp_path,))) is None
    index = DocumentIndex(":memory:")
    index.put("ann", "gold", [Document("a.md", "note", 3, "Gold: moved the stop.")], now=NOON)
    assert "memtape embedder build minilm" in index.fill("ann", "gold", absent).problem
    found = search_index(index, "gold stop", owner="ann", agent="gold", slot="hybrid_embeddings", embedder=absent)
    assert found.slot == "sqlite_fts" and "words alone" in found.note and found.hits[0].path == "a.md"
    index.close()


def test_without_onnxruntime_it_names_the_extra(tmp_path, monkeypatch):
    _pretend_built(tmp_path / NAME)
    monkeypatch.setattr(minilm, "find_spec", lambda name: None)
    monkeypatch.setattr(build_minilm, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'memtape\[minilm\]'"):
        MiniLM([tmp_path]).embed(["gold"])
    with pytest.raises(MissingExtra, match=r"pip install 'memtape\[minilm\]'"):
        build_minilm.build_minilm(tmp_path)


def _pretend_built(folder):
    folder.mkdir()
    (folder / MANIFEST).write_text(f'{{"files": {{"{MODEL}": "", "{TOKENIZER}": ""}}}}', encoding="utf-8")
