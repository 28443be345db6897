"""The embedding slot: the table is the one that was shipped, says the same everywhere, and knows what traders mean."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.errors import Invalid
from memtape.plugs import embedder as slot
from memtape.plugs.embedder import DIGESTS, FOLDER, Embedder, StaticEmbedder, embedder_of
from tests.plugs.meanings import ALIKE

STATIC: Embedder = StaticEmbedder()
words = st.text(max_size=200)
# sha256 over the vectors of the notes below, little-endian float32: the same on every machine.
PINNED = "20f5e15f2f5044001b50c0b796175ff7f36276fd57aed4d49f8e8f94a1020d91"
NOTES = (
    "stop loss too tight", "got stopped out by noise", "Funding rates flipped negative", "BTC breakout above 65,200 → long 0.5",
    "drawdown -12 %: halve the size", "黄金突破前高", "Überkauft, RSI 78", "",
)  # fmt: skip


def likeness(a, b):
    first, second = STATIC.embed([a, b])
    return float(first @ second)


# --- what it knows ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "note, alike, other",
    [
        *ALIKE,
        ("exchange outage, could not close", "venue was down and orders were rejected", "mean reversion at the lower band"),
        ("profits", "gains", "bananas"),
    ],
)
def test_a_note_is_nearer_to_what_means_the_same_than_to_another_matter(note, alike, other):
    assert likeness(note, alike) > likeness(note, other) + 0.05


def test_the_common_words_of_a_sentence_hardly_count():
    assert likeness("the breakout of the range", "breakout range") > 0.95
    assert likeness("it was on the other hand to be with them", "breakout range") < 0.2


def test_case_accents_and_punctuation_make_no_difference():
    assert likeness("Überkauft: SHORT!!", "uberkauft short") == pytest.approx(1.0, abs=1e-6)


# --- the same everywhere ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_the_files_are_those_that_the_id_stands_for(name):
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == DIGESTS[name]
    assert {path.name for path in FOLDER.iterdir()} == set(DIGESTS)


def test_an_altered_table_is_refused_because_stored_vectors_would_not_match_it(tmp_path):
    altered = bytearray((FOLDER / "weights.npy").read_bytes())
    altered[-1] ^= 1
    (tmp_path / "weights.npy").write_bytes(bytes(altered))
    with pytest.raises(Invalid, match="is not the file that was shipped"):
        slot._file("weights.npy", tmp_path)


def test_the_vectors_are_the_same_bytes_on_every_machine():
    found = STATIC.embed(NOTES)
    assert hashlib.sha256(found.astype("<f4").tobytes()).hexdigest() == PINNED


@given(st.lists(words, max_size=5))
def test_a_text_has_the_same_vector_alone_and_in_company(texts):
    together = STATIC.embed(texts)
    assert together.shape == (len(texts), 256) and together.dtype == np.float32
    for text, vector in zip(texts, together, strict=True):
        assert STATIC.embed([text])[0].tobytes() == vector.tobytes()


@given(
    st.lists(st.sampled_from(["stop", "loss", "breakout", "funding", "the", "of", "gold", "65000", "hedge", "Fed"]), max_size=40),
    st.randoms(use_true_random=False),
)
def test_the_order_of_words_changes_not_one_bit(said, chance):
    before = STATIC.embed([" ".join(said)])
    chance.shuffle(said)
    assert STATIC.embed([" ".join(said)]).tobytes() == before.tobytes()


# --- any text -----------------------------------------------------------------------------------------------------------


@given(words)
def test_a_vector_has_length_one_or_says_nothing_at_all(text):
    (vector,) = STATIC.embed([text])
    assert np.isfinite(vector).all()
    assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-6) or not vector.any()


@pytest.mark.parametrize("text", ["", " \n\t", "?!... --", "🚀🚀", "x" * 500, "\x00\ufffd"])
def test_a_text_without_a_known_word_is_alike_to_nothing(text):
    assert not STATIC.embed([text]).any()


def test_half_a_surrogate_pair_spoils_only_itself():
    assert STATIC.embed(["short \ud83d gold"]).tobytes() == STATIC.embed(["short gold"]).tobytes()


def test_no_texts_give_no_rows():
    assert STATIC.embed([]).shape == (0, 256)


def test_a_character_of_another_script_says_as_much_as_a_word():
    assert 0.4 < likeness("金 breakout", "breakout") < 0.9


def test_saying_a_thing_ten_thousand_times_is_saying_it_once():
    assert STATIC.embed(["stop loss " * 10_000]).tobytes() == STATIC.embed(["stop loss"]).tobytes()


# --- the slot -----------------------------------------------------------------------------------------------------------


def test_the_slot_is_off_unless_it_is_asked_for():
    assert embedder_of(None) is None and embedder_of("off") is None
    static = embedder_of("static")
    assert static is not None and (static.id, static.dim) == (STATIC.id, STATIC.embed(["x"]).shape[1])
    with pytest.raises(Invalid, match="off, static"):
        embedder_of("minilm-xl")


def test_naming_the_slot_loads_neither_numpy_nor_the_table():
    told = "import sys; from memtape.plugs.embedder import embedder_of; embedder_of('static'); print({'numpy', 'tokenizers'} & set(sys.modules))"
    source = str(Path(slot.__file__).parent.parent.parent)
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {source!r}); {told}"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "set()"
