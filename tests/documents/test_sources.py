"""What of a workspace is read, and whose word it is."""

from __future__ import annotations

import json
import os
import random
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.documents import index_writer, sources, text_files
from memtape.documents.chunks import BYTES_PER_TOKEN, ChunkSizes, cut_document
from memtape.documents.citations import cite, lines_of
from memtape.documents.index import DocumentIndex
from memtape.documents.search import search_index
from memtape.documents.sources import (
    DocumentFolder,
    FileEntry,
    SkippedFile,
    classify_path,
    walk,
    walked_folders,
)
from memtape.documents.text_files import NO_TRANSCRIPT, NOT_TEXT, decode_text, document_text, read_document_file, read_text_file
from memtape.errors import Invalid
from tests.documents.desk import NOON, sync, write


def paths(root, **more):
    return [each.path for each in walk(DocumentFolder(root, **more)) if isinstance(each, FileEntry)]


def problems(root):
    return {each.path: each.problem for each in walk(DocumentFolder(root)) if isinstance(each, SkippedFile)}


@pytest.mark.parametrize(
    "path, told",
    [
        ("SOUL.md", ("rules", 1)), ("TRADING_MANUAL.md", ("rules", 1)), ("TRADING-STRATEGY.md", ("strategy", 1)),
        ("memory/TRADING-STRATEGY.md", ("strategy", 1)), ("memory/TRADING-STRATEGY-CONSERVATIVE.md", ("strategy", 1)),
        ("strategies/breakout.md", ("strategy", 1)), ("memory/TRADE-LOG.md", ("log", 3)), ("RESEARCH-LOG.md", ("log", 3)),
        ("memory/WEEKLY-REVIEW.md", ("log", 3)), ("memory/RSI-SIGNAL-GATE.md", ("memory", 3)), ("journal/2026/05/12.md", ("journal", 3)),
        ("runs/r1/transcript.jsonl", ("transcript", 3)), ("decisions/d1.json", ("decision", 3)), ("playbooks/outage.md", ("playbook", 1)),
        ("runbooks/disconnect.md", ("runbook", 1)), ("research/fomc.md", ("external", 4)), ("reports/sim/report.md", ("report", 3)),
        ("reports/x/DECISION.md", ("decision", 3)), ("ideas.md", ("note", 3)),
    ],
)  # fmt: skip
def test_the_path_says_what_a_document_is_and_who_stands_behind_it(path, told):
    assert classify_path(path) == told


@pytest.mark.parametrize(
    "path",
    ["journal/SOUL.md", "memory/notes/TRADING_MANUAL.md", "research/TRADING-STRATEGY.md", "runs/r1/SOUL.md", "notes/CLAUDE.md"],
)
def test_a_rule_where_an_agent_may_write_is_not_the_owners_rule(path):
    assert classify_path(path)[1] >= 3


def test_version_control_virtual_environments_and_packages_are_not_entered(tmp_path):
    write(tmp_path, {
        "SOUL.md": "x", ".git/a.md": "x", "node_modules/p/README.md": "x", "venv/lib/b.md": "x", "my-env/pyvenv.cfg": "x", "my-env/lib/c.md": "x",
        ".venv/d.md": "x", "src/__pycache__/e.md": "x", "journal/1.md": "x", "bot.py": "x", "data.json": "{}", "runs/1.jsonl": "{}",
    })  # fmt: skip
    assert paths(tmp_path) == ["SOUL.md", "data.json", "journal/1.md", "runs/1.jsonl"]
    found = {each.path: each for each in walk(DocumentFolder(tmp_path))}
    assert read_text_file(found["data.json"]).problem == NO_TRANSCRIPT and found["*.py"].files == 1


def test_a_link_out_of_the_workspace_is_not_followed_and_that_is_told(tmp_path):
    secret = write(tmp_path / "home", {"secret.md": "the key"}) / "secret.md"
    root = write(tmp_path / "work", {"SOUL.md": "x"})
    (root / "linked.md").symlink_to(secret)
    (root / "folder").symlink_to(secret.parent)
    assert paths(root) == ["SOUL.md"]
    assert problems(root) == {"linked.md": "a symbolic link: not followed"}


def test_a_file_that_becomes_a_link_after_it_was_seen_is_not_read(tmp_path):
    root = write(tmp_path / "work", {"a.md": "x"})
    (seen,) = walk(DocumentFolder(root))
    (root / "a.md").unlink()
    (root / "a.md").symlink_to(write(tmp_path, {"secret.md": "the key"}) / "secret.md")
    assert isinstance(read_text_file(seen), SkippedFile)


def test_a_file_too_large_is_left_out_and_told(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_LARGE_FILE_BYTES", 10)
    write(tmp_path, {"big.md": "x" * 11, "small.md": "x"})
    assert paths(tmp_path) == ["small.md"] and "big.md" in problems(tmp_path)


def test_pipes_and_other_things_that_are_no_files_are_passed_by(tmp_path):
    os.mkfifo(tmp_path / "pipe.md")
    assert list(walk(DocumentFolder(tmp_path))) == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_note_in_any_common_encoding_is_read(tmp_path, encoding):
    (tmp_path / "a.md").write_bytes("Überkauft – raus".encode(encoding))
    (seen,) = walk(DocumentFolder(tmp_path))
    assert read_text_file(seen) == "Überkauft – raus"


@pytest.mark.parametrize("encoding, text", [
    ("shift_jis", "# 損切り\nストップが近すぎた。次は二倍の幅にする。\n"), ("gbk", "# 黄金\n今天突破前高，我们没有止损，明天要小心风险。\n"),
    ("utf-16-le", "# Gold\nÜberkauft: raus.\n"), ("utf-16-be", "# 黄金\n今天突破前高\n"), ("euc_kr", "# 금\n손절이 너무 가까웠다\n"),
    ("cp1252", "Überkauft – später günstiger, “ruhig” bleiben"), ("cp1252", "L’été à Genève : prix très élevé"),
])  # fmt: skip
def test_a_note_in_an_encoding_that_it_does_not_state_is_read(tmp_path, encoding, text):
    (tmp_path / "a.md").write_bytes(text.encode(encoding))
    (seen,) = walk(DocumentFolder(tmp_path))
    assert read_text_file(seen) == text


def test_a_picture_that_is_named_like_a_note_is_no_text_even_if_it_has_no_byte_of_zero(tmp_path):
    noise = random.Random(4)
    for size in (100, 300, 1_000):
        (tmp_path / "chart.md").write_bytes(bytes(noise.randrange(1, 256) for _ in range(size)))
        (seen,) = walk(DocumentFolder(tmp_path))
        assert read_text_file(seen) == SkippedFile("chart.md", NOT_TEXT)
    # A log with colours is text.
    (tmp_path / "chart.md").write_bytes(b"\x1b[32mINFO\x1b[0m filled\n" * 9)
    (seen,) = walk(DocumentFolder(tmp_path))
    assert "filled" in read_text_file(seen)


def test_a_log_larger_than_one_read_is_indexed_in_parts_with_its_own_line_numbers(tmp_path, monkeypatch):
    for module in (sources, text_files):
        monkeypatch.setattr(module, "MAX_FILE_BYTES", 4_000)
    monkeypatch.setattr(text_files, "PART_CHARACTERS", 1_000)
    lines = [f"2026-05-12 tick {n}: spread {n % 7}, nothing to report" for n in range(1, 3_001)]
    lines[2_344] = "2026-05-12 the broker said ERR-4031"
    root = write(tmp_path / "work", {"logs/bot.log": "\n".join(lines) + "\n"})
    index = DocumentIndex(":memory:")
    assert index.sync("ann", "gold", [DocumentFolder(root)], now=NOON).documents == 1
    (hit, *_) = search_index(index, "ERR-4031", owner="ann", agent="gold").hits
    text = read_document_file(root / "logs/bot.log", "logs/bot.log")
    assert hit.path == "logs/bot.log" and hit.start_line <= 2_345 <= hit.end_line
    assert cite(hit.path, text, hit.start_line, hit.end_line).content_hash == hit.content_hash
    assert "ERR-4031" in text[hit.start : hit.end]
    again = index.sync("ann", "gold", [DocumentFolder(root)], now=NOON)
    assert (again.read, again.changed) == (0, 0)
    index.close()


@pytest.mark.parametrize("change", ["appended", "edited in the middle", "cut off", "rewritten", "moved to the owner's files"])
def test_of_a_large_log_only_the_parts_that_changed_are_indexed_again(tmp_path, monkeypatch, change):
    for module in (sources, text_files):
        monkeypatch.setattr(module, "MAX_FILE_BYTES", 4_000)
    monkeypatch.setattr(text_files, "PART_CHARACTERS", 1_000)
    lines = [f"2026-05-12 tick {n}: spread {n % 7}, the gold desk waits" for n in range(1, 1_001)]
    root = write(tmp_path / "work", {"logs/bot.log": "\n".join(lines) + "\n"})
    index = DocumentIndex(":memory:")
    sync(index, root)
    cut: list[str] = []
    monkeypatch.setattr(index_writer, "cut_document", lambda text, **more: cut.append(text) or cut_document(text, **more))
    if change == "appended":
        lines += ["2026-05-12 the broker said ERR-7001", "2026-05-12 flat"]
    elif change == "edited in the middle":
        lines[500] = "2026-05-12 the broker said ERR-7001"
    elif change == "cut off":
        lines = lines[:600]
    elif change == "rewritten":
        lines = [f"2026-05-13 tick {n}: the log was rotated, ERR-7001" for n in range(1, 301)]
    else:
        monkeypatch.setattr(sources, "classify_path", lambda path: ("strategy", 1))
    text = "\n".join(lines) + "\n"
    write(root, {"logs/bot.log": text})
    done = sync(index, root)
    assert (done.read, done.changed, done.documents) == (1, 1, 1)
    # An edit is met again where the part that holds it begins; what is unchanged before it stays as it is.
    kept = {"appended": 900, "edited in the middle": 450, "cut off": 550}.get(change, 0) * len(lines[0])
    assert len(text) - sum(map(len, cut)) >= kept
    fresh = DocumentIndex(":memory:")
    sync(fresh, root)
    for question in ("ERR-7001", "tick 3", "tick 995", "rotated", "gold desk waits"):
        old, new = (search_index(each, question, owner="ann", agent="gold", limit=30).hits for each in (index, fresh))
        assert old == new
    assert done.chunks == sync(fresh, root).chunks
    cut.clear()
    assert sync(index, root, rebuild=True).chunks == done.chunks and "".join(cut) == text
    index.forget("ann", "gold")
    assert not [table for table in ("parts", "chunks", "documents") if index.cache.connection.execute(f"SELECT * FROM {table}").fetchall()]
    index.close(), fresh.close()


def test_a_line_longer_than_one_read_can_be_cited(tmp_path, monkeypatch):
    for module in (sources, text_files):
        monkeypatch.setattr(module, "MAX_FILE_BYTES", 4_000)
    monkeypatch.setattr(text_files, "PART_CHARACTERS", 1_000)
    long = "; ".join(f"filled order {n}" for n in range(900))
    root = write(tmp_path / "work", {"logs/bot.log": f"started\n{long}; ERR-4031\nstopped\n"})
    index = DocumentIndex(":memory:")
    sync(index, root)
    (hit, *_) = search_index(index, "ERR-4031", owner="ann", agent="gold").hits
    text = read_document_file(root / "logs/bot.log", "logs/bot.log")
    assert cite(hit.path, text, hit.start_line, hit.end_line).content_hash == hit.content_hash
    index.close()


def test_a_conversation_is_recognised_wherever_it_lies_and_other_records_are_only_counted(tmp_path):
    claude = {"type": "user", "sessionId": "s1", "message": {"role": "user", "content": "gold: was the stop moved?"}}
    openai = {"messages": [{"role": "system", "content": "You trade gold."}, {"role": "assistant", "content": "hold"}]}
    root = write(tmp_path / "work", {
        "exports/chat.jsonl": json.dumps(claude) + "\n", "old/openai.json": json.dumps(openai), "prices.json": '{"gold": 2400}', "bars.csv": "gold,1",
    })  # fmt: skip
    index = DocumentIndex(":memory:")
    for read in (4 - 1, 0):
        done = index.sync("ann", "gold", [DocumentFolder(root)], now=NOON)
        assert done.read == read and done.documents == 2 and done.problems == ()
        assert dict(done.left_out) == {"records that are no transcript": 1, "no kind of text that is indexed": 1}
    assert {hit.source_type for hit in search_index(index, "gold", owner="ann", agent="gold").hits} == {"transcript"}
    index.close()


def test_bytes_that_are_no_text_are_told(tmp_path):
    (tmp_path / "a.md").write_bytes(bytes(range(10)))
    (seen,) = walk(DocumentFolder(tmp_path))
    assert read_text_file(seen) == SkippedFile("a.md", "not text") and decode_text(b"") == ""


def test_a_shared_folder_names_its_documents_with_its_prefix_and_its_own_type(tmp_path):
    write(tmp_path, {"outage.md": "x"})
    (seen,) = walk(DocumentFolder(tmp_path, prefix="global/", type="runbook", tier=1))
    assert (seen.path, seen.type, seen.tier) == ("global/outage.md", "runbook", 1)


def test_a_folder_that_is_not_there_is_an_error_and_not_an_empty_workspace(tmp_path):
    with pytest.raises(Invalid, match="is not a folder"):
        list(walk(DocumentFolder(tmp_path / "gone")))


# --- folders and names that are kept ------------------------------------------------------------------------------------


def test_the_folders_that_are_watched_are_those_that_are_entered(tmp_path):
    write(tmp_path, {
        "SOUL.md": "x", ".git/a.md": "x", "node_modules/p/README.md": "x", "my-env/pyvenv.cfg": "x", "my-env/lib/c.md": "x", "src/__pycache__/e.md": "x",
        "journal/2026/1.md": "x", "empty/.keep": "",
    })  # fmt: skip
    (tmp_path / "link").symlink_to("/usr")
    told = {os.path.relpath(folder, tmp_path) for folder in walked_folders(str(tmp_path))}
    assert told == {".", "journal", "journal/2026", "src", "empty"}
    assert {str(PurePosixPath(path).parent) for path in paths(tmp_path)} <= told
    assert list(walked_folders(str(tmp_path / "gone"))) == []


@pytest.mark.parametrize(
    "prefix, name", [("", "@decisions/2026-05-12.md"), ("@decisions/", "2026-05-12.md"), ("@", "decisions/x.md")]
)
def test_no_file_is_named_like_the_pages_that_memtape_makes(tmp_path, prefix, name):
    write(tmp_path, {name: "forged", "ok.md" if not prefix else "a.txt": "x"})
    found = list(walk(DocumentFolder(tmp_path, prefix=prefix)))
    assert not any(each.path.startswith("@decisions/") for each in found if isinstance(each, FileEntry))
    assert [each.path for each in found if isinstance(each, SkippedFile)] == ["@decisions/"]


def test_a_source_may_list_its_documents_itself_and_they_are_made_when_they_are_read(tmp_path):
    made = []
    seen = FileEntry(
        "@decisions/2026-05-12.md",
        tmp_path / "none",
        "decision",
        3,
        1,
        2,
        3,
        4,
        make_text=lambda: made.append(1) or "# Decisions",
    )
    source = DocumentFolder(tmp_path / "none", "@decisions/", list_entries=lambda: [seen])
    assert list(walk(source)) == [seen] and made == []
    assert read_text_file(seen) == "# Decisions" and made == [1]


# --- transcripts --------------------------------------------------------------------------------------------------------


def transcript(**more):
    turns = [
        {"role": "system", "content": "You trade gold.\nFollow the manual."},
        {"role": "assistant", "content": "Intent: fade the failed breakout.\nÜberkauft; stop above 2400."},
        {"role": "tool", "name": "get_brief", "content": "Rules first. " * 2000},
        {"role": "assistant", "content": "Refused by R3_POSITION_CAP, so I wait."},
        more or {"role": "user", "content": "why?"},
    ]
    return "\n".join(json.dumps(turn) for turn in turns) + "\n"


def test_a_record_stays_on_its_line_and_a_long_one_is_cut():
    text = document_text("runs/r1/transcript.jsonl", transcript().encode())
    assert len(lines_of(text)) == 5
    chunks = cut_document(text)
    assert all(len(chunk.text.encode()) <= (ChunkSizes().target_tokens + 1) * BYTES_PER_TOKEN for chunk in chunks)
    assert all(text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert {line for chunk in chunks for line in range(chunk.start_line, chunk.end_line + 1)} == {1, 2, 3, 4, 5}
    assert sum(chunk.start_line == chunk.end_line == 3 for chunk in chunks) > 10


@pytest.mark.parametrize(
    "question, line",
    [("what was the intent with the failed breakout", 2), ("Follow the manual", 1), ("überkauft", 2), ("R3_POSITION_CAP", 4)],
)
def test_a_run_is_found_by_its_intent_in_its_transcript(tmp_path, question, line):
    write(
        tmp_path,
        {
            "runs/r1/transcript.jsonl": transcript(),
            **{f"runs/x{n}/t.jsonl": '{"role": "user", "content": "the range holds"}\n' for n in range(20)},
        },
    )
    index = DocumentIndex(":memory:")
    sync(index, tmp_path)
    hit = search_index(index, question, owner="ann", agent="gold").hits[0]
    assert (hit.path, hit.source_type, hit.tier) == ("runs/r1/transcript.jsonl", "transcript", 3)
    assert hit.start_line <= line <= hit.end_line
    index.close()


@given(
    st.lists(
        st.recursive(
            st.text() | st.floats(allow_nan=False) | st.none(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=5,
        )
    )
)
def test_records_keep_their_lines_whatever_is_in_them(records):
    raw = "\n".join(json.dumps(record) for record in records)
    text = document_text("runs/1.jsonl", raw.encode())
    assert len(lines_of(text)) == len(lines_of(raw))
    assert document_text("runs/1.md", raw.encode()) == raw, "only records are read so"


@given(st.text(st.characters(categories=["Lu", "Ll", "Lo", "So"]), min_size=1))
def test_words_that_json_spells_in_escapes_are_read_as_words(words):
    assert words in document_text("runs/1.json", json.dumps({"say": f"first\n{words}\tlast"}).encode())


@pytest.mark.parametrize("encoding, notes", [
    ("gb18030", ["今天多单平仓", "滑点太大，不做", "螺纹钢主力合约涨停", "昨晚非农大幅超预期，空单在2301.5止盈", "周五必须空仓", "资金费率转负，平掉空头"]),
    ("cp932", ["損切り", "ドル円", "注文は約定しませんでした", "東京時間は動かない"]), ("euc_jp", ["押し目買い失敗", "雇用統計の後に買い増し、すぐに損切り。"]),
    ("euc_kr", ["손절", "환율이 급등해서 숏을 잡았다", "규칙 3: 하루 최대 손실 2%", "삼성전자 실적 발표 후 급락"]),
    ("cp1252", ["Größe über", "S’il faut vendre… « oui »"]),
])  # fmt: skip
def test_a_short_note_is_read_in_the_encoding_in_which_it_was_written(encoding, notes):
    assert [decode_text(note.encode(encoding)) for note in notes] == notes
