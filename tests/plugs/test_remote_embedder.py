"""The embedder remote, against a server that misbehaves: what counts is right, what is wrong is told, and the key stays where it is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from memtape.documents.index import DocumentIndex
from memtape.documents.index_writer import Document
from memtape.documents.search import search_index
from memtape.errors import Invalid, ModelFailed
from memtape.plugs.embedder import Embedder, EmbedderSources, embedder_of, embedder_with_id
from memtape.plugs.remote_embedder import BATCH_TEXTS, MAX_ATTEMPTS, RemoteEmbedder, embedding_address
from tests.conftest import NOON
from tests.plugs.embedding_server import Embeds, embedding_server, vector
from tests.plugs.scripted import Fails, Hangs, Sends

KEY = "sk-desk-4711-secret"


@pytest.fixture(scope="module")
def server():
    with embedding_server() as open_server:
        yield open_server


@pytest.fixture
def waits():
    return []


@pytest.fixture
def embedder(server, waits):
    server.plays(Embeds())
    return RemoteEmbedder(server.url, "desk-embed", key=KEY, timeout=5.0, sleep=waits.append)


def unit(text, dim=8):
    made = np.array(vector(text, dim))
    return made / np.linalg.norm(made)


# --- an ordinary day ----------------------------------------------------------------------------------------------------


def test_texts_become_vectors_of_length_one_in_their_order(server, embedder):
    found = embedder.embed(["stop too tight", "funding flipped"])
    assert found.dtype == np.float32 and found == pytest.approx(
        np.array([unit("stop too tight"), unit("funding flipped")]), abs=1e-6
    )
    (asked,) = server.asked
    assert (asked.path, asked.body) == ("/v1/embeddings", {"model": "desk-embed", "input": ["stop too tight", "funding flipped"]})
    assert asked.headers["authorization"] == f"Bearer {KEY}"


def test_many_texts_go_in_batches_and_blank_ones_do_not_go_at_all(server, embedder):
    notes = [f"note {n}" for n in range(BATCH_TEXTS + 6)]
    found = embedder.embed([" ", *notes, ""])
    assert [len(asked.body["input"]) for asked in server.asked] == [BATCH_TEXTS, 6]
    assert not found[0].any() and not found[-1].any() and found[-2] == pytest.approx(unit(notes[-1]), abs=1e-6)


def test_half_a_surrogate_pair_is_sent_as_a_question_mark(server, embedder):
    embedder.embed(["short \ud83d gold"])
    assert server.asked[0].body["input"] == ["short ? gold"]


def test_no_key_is_sent_where_there_is_none(server):
    server.plays(Embeds())
    RemoteEmbedder(server.url, "desk-embed").embed(["gold"])
    assert "authorization" not in server.asked[0].headers


@pytest.mark.parametrize("spoils", [
    lambda items: items[::-1],
    lambda items: [{name: value for name, value in item.items() if name != "index"} for item in items],
    lambda items: [{**item, "index": item["index"] or None} for item in items],  # Gemini
], ids=["in another order", "without an index", "without the first index"])  # fmt: skip
def test_every_vector_finds_its_text(server, embedder, spoils):
    server.plays(Embeds(spoils=spoils))
    assert embedder.embed(["gold", "oil", "BTC"]) == pytest.approx(np.array([unit("gold"), unit("oil"), unit("BTC")]), abs=1e-6)


# --- how long a vector is -----------------------------------------------------------------------------------------------


def test_the_length_is_learned_once_and_belongs_to_the_id(server, embedder):
    assert (embedder.id, embedder.dim) == (f"remote:desk-embed@{server.host}:8", 8)
    assert embedder.id and [asked.body["input"] for asked in server.asked] == [["word"]]
    assert embedder.embed([]).shape == (0, 8) and embedder.embed([" "]).shape == (1, 8) and len(server.asked) == 1


def test_a_length_that_is_set_is_asked_for_and_expected(server, waits):
    server.plays(Embeds(dim=4))
    short: Embedder = RemoteEmbedder(server.url, "desk-embed", dim=4, sleep=waits.append)
    assert short.id.endswith(":4") and not server.asked
    assert short.embed(["gold"]).shape == (1, 4) and server.asked[0].body["dimensions"] == 4
    server.plays(Embeds(dim=8))
    with pytest.raises(ModelFailed, match="8 numbers; 4 were expected") as failed:
        short.embed(["gold"])
    assert not failed.value.retry_later and waits == []


def test_a_server_that_changes_its_model_is_noticed_because_vectors_would_be_mixed(server, embedder):
    embedder.embed(["gold"])
    server.plays(Embeds(dim=16))
    with pytest.raises(ModelFailed, match="16 numbers; 8 were expected"):
        embedder.embed(["gold"])


def test_a_server_that_is_down_leaves_an_id_that_fits_no_vector_and_is_learned_later(server, embedder):
    server.plays(Fails(500))
    assert embedder.id == f"remote:desk-embed@{server.host}:?" and embedder.dim == 0
    server.plays(Embeds())
    assert embedder.id == f"remote:desk-embed@{server.host}:8"


# --- a bad day ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
def test_a_busy_or_broken_server_is_asked_again_with_longer_and_longer_waits(server, embedder, waits, status):
    server.plays(Fails(status), Fails(status), Embeds())
    assert embedder.embed(["gold"]).shape == (1, 8) and len(server.asked) == 3
    assert waits == [0.5, 1.0]


def test_a_server_that_names_a_time_is_asked_again_after_it(server, embedder, waits):
    server.plays(
        Fails(429, headers=(("retry-after", "7"),)),
        Fails(503, headers=(("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"),)),
        Embeds(),
    )
    embedder.embed(["gold"])
    assert waits == [7.0, 1.0]


def test_nobody_waits_an_hour_because_a_server_says_so(server, embedder, waits):
    server.plays(Fails(429, headers=(("retry-after", "3600"),)))
    with pytest.raises(ModelFailed, match="rate limited"):
        embedder.embed(["gold"])
    assert waits == [] and len(server.asked) == 1


def test_a_server_that_stays_broken_is_given_up_in_the_end(server, embedder, waits):
    server.plays(Fails(503))
    with pytest.raises(ModelFailed, match="overloaded") as failed:
        embedder.embed(["gold"])
    assert failed.value.retry_later and len(server.asked) == MAX_ATTEMPTS and waits == [0.5, 1.0, 2.0, 4.0]


def test_a_server_that_does_not_answer_in_time_is_asked_again_and_then_told(server, waits):
    slow = RemoteEmbedder(server.url, "desk-embed", timeout=0.2, sleep=waits.append)
    server.plays(Hangs(), Embeds())
    assert slow.embed(["gold"]).shape == (1, 8)
    server.plays(Hangs())
    with pytest.raises(ModelFailed, match=r"no reply within 0.2 s|no connection"):
        slow.embed(["gold"])
    assert len(waits) == MAX_ATTEMPTS


def test_a_body_that_breaks_off_is_asked_for_again(server, embedder):
    server.plays(Sends(b'{"data": [', short=50), Embeds())
    assert embedder.embed(["gold"]).shape == (1, 8)


def test_no_server_at_all_is_told_by_its_name(waits):
    with pytest.raises(ModelFailed, match=r"no connection to 127.0.0.1:9"):
        RemoteEmbedder("http://127.0.0.1:9/v1", "m", sleep=waits.append).embed(["gold"])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_what_will_not_go_better_is_not_asked_again(server, embedder, waits, status):
    server.plays(Fails(status, said="no such model"))
    with pytest.raises(ModelFailed, match="no such model") as failed:
        embedder.embed(["gold"])
    assert not failed.value.retry_later and waits == [] and len(server.asked) == 1


def _figures(*figures):
    return json.dumps({"data": [{"index": 0, "embedding": list(figures)}]}).encode()


@pytest.mark.parametrize("body", [
    b"", b"<html>502</html>", b'{"data": [{"index": 0, "embe', b"[]", b"null", b'{"data": 3}', b'{"data": [3]}', b'{"data": []}', b'{"error": {"message": "later"}}',
    b'{"data": [{"index": 0}]}', b'{"data": [{"index": 1, "embedding": [1.0]}]}', b'{"data": [{"index": [0], "embedding": [1.0]}]}', b'{"data": [{"index": 0, "embedding": []}]}',
    b'{"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}]}', b'{"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]}',
    b'{"data": [{"index": 0, "embedding": "AACAPw=="}]}', b'{"data": [{"index": 0, "embedding": [[1.0], [2.0]]}]}', b'{"data": [{"index": 0, "embedding": [1.0, null]}]}',
    _figures(1.0, float("nan")), _figures(1.0, float("inf")), b'{"data": [{"index": 0, "embedding": [1e999]}]}', b"\xff\xfe", b"[" * 100_000,
])  # fmt: skip
def test_an_answer_of_another_form_counts_for_nothing(server, embedder, waits, body):
    server.plays(Sends(body))
    with pytest.raises(ModelFailed, match=f"remote:desk-embed@{server.host}"):
        embedder.embed(["gold"])
    server.plays(Embeds(dim=5))
    assert embedder.embed(["gold"]).shape == (1, 5) and waits == []  # and nothing was learned from it


def test_figures_too_large_to_be_squared_still_give_a_direction(server, embedder):
    server.plays(Sends(_figures(3e300, 4e300)))
    assert embedder.embed(["gold"])[0].tolist() == pytest.approx([0.6, 0.8])


def test_a_vector_of_zeros_is_alike_to_nothing(server, embedder):
    server.plays(Sends(_figures(0.0, 0.0)))
    assert not embedder.embed(["gold"]).any()


# --- the key ------------------------------------------------------------------------------------------------------------


def test_the_key_stands_in_no_error_and_in_no_picture_of_the_embedder(server, embedder):
    server.plays(Fails(401, said=f"Incorrect API key provided: {KEY}. You can find yours at ..."))
    with pytest.raises(ModelFailed) as failed:
        embedder.embed(["gold"])
    sources = EmbedderSources(url=server.url, model="desk-embed", key=KEY)
    for text in (str(failed.value), repr(failed.value), repr(embedder), repr(sources), embedder.id):
        assert KEY not in text and "4711" not in text


def test_the_key_is_not_taken_elsewhere_by_a_redirect(server, embedder):
    with embedding_server() as elsewhere:
        for status in (301, 302, 307, 308):
            server.plays(Fails(status, headers=(("location", f"{elsewhere.url}/embeddings"),)))
            with pytest.raises(ModelFailed, match="the server redirects"):
                embedder.embed(["gold"])
        assert elsewhere.asked == []


def test_a_key_goes_by_https_or_to_this_machine():
    for url in ("http://10.0.0.5:8080/v1", "http://example.com/v1", "http://localhost.example.com/v1"):
        with pytest.raises(Invalid, match=r"unencrypted. Use https") as told:
            RemoteEmbedder(url, "m", key=KEY)
        assert KEY not in str(told.value)
        assert RemoteEmbedder(url, "m").address.is_local is False
    for url in ("http://localhost:11434/v1", "http://127.0.0.1/v1", "http://[::1]:8080/v1", "https://api.voyageai.com/v1"):
        RemoteEmbedder(url, "m", key=KEY)


@pytest.mark.parametrize("url, problem", [
    ("", "is not set"), ("api.openai.com/v1", "not an address"), ("ftp://example.com", "not an address"), ("https://", "not an address"),
    ("https://example.com:port/v1", "not an address"), ("https://ann:secret@example.com/v1", "contains a name or a password"), ("https://exämple.com", "not an address"),
])  # fmt: skip
def test_an_address_that_is_none_is_told(url, problem):
    with pytest.raises(Invalid, match=problem) as told:
        RemoteEmbedder(url, "m")
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("key", ["sk 1", "sk-1\nx-other: 1", "schlüssel"])
def test_a_key_that_is_none_is_refused_without_being_repeated(key):
    with pytest.raises(Invalid, match="MEMTAPE_EMBEDDER_KEY") as told:
        RemoteEmbedder("https://example.com", "m", key=key)
    assert key not in str(told.value)


def test_a_server_without_a_model_is_told():
    with pytest.raises(Invalid, match="MEMTAPE_EMBEDDER_MODEL"):
        embedder_of("remote", EmbedderSources(url="https://example.com/v1"))


@pytest.mark.parametrize("url, asked", [
    ("https://api.openai.com/v1", "https://api.openai.com/v1/embeddings"), ("https://api.openai.com/v1/embeddings", "https://api.openai.com/v1/embeddings"),
    ("https://generativelanguage.googleapis.com/v1beta/openai/", "https://generativelanguage.googleapis.com/v1beta/openai/embeddings"),
    ("http://[::1]:8080", "http://[::1]:8080/embeddings"), ("https://desk.example.com/v1?api-version=2", "https://desk.example.com/v1/embeddings?api-version=2"),
])  # fmt: skip
def test_the_address_of_an_api_is_that_of_its_embeddings(url, asked):
    assert embedding_address(url).url == asked


# --- documents ----------------------------------------------------------------------------------------------------------


def test_documents_are_searched_by_the_server_and_by_words_while_it_is_down(server, embedder):
    index = DocumentIndex(":memory:")
    index.put(
        "ann", "gold", [Document("a.md", "note", 3, "Gold: moved the stop."), Document("b.md", "note", 3, "Oil fell.")], now=NOON
    )
    server.plays(Fails(401))
    assert "not allowed" in index.fill("ann", "gold", embedder).problem
    server.plays(Embeds())
    assert index.fill("ann", "gold", embedder).complete

    def found():
        return search_index(index, "gold stop", owner="ann", agent="gold", slot="hybrid_embeddings", embedder=embedder)

    assert found().slot == "hybrid_embeddings"
    server.plays(Fails(401))
    assert found().slot == "sqlite_fts" and found().hits[0].path == "a.md"
    index.close()


def test_vectors_of_an_id_are_compared_by_the_server_that_made_them_while_the_settings_name_it(server, embedder):
    sources = EmbedderSources(url=server.url, model="desk-embed", key=KEY)
    found = embedder_with_id(embedder.id, sources)
    assert found is not None and (found.id, found.dim) == (embedder.id, 8)
    server.plays(Embeds())
    found.embed(["gold"])
    assert "dimensions" not in server.asked[0].body
    assert embedder_with_id(embedder.id, EmbedderSources(url=server.url, model="another")) is None
    assert embedder_with_id(embedder.id, EmbedderSources()) is None
    assert embedder_with_id(f"remote:desk-embed@{server.host}:?", sources) is None
