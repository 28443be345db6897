"""Nothing can be altered in the books behind memtape's back: every kind of forgery, in every table and column, is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memtape.core.codec import canonical_plain, chain_hash, digest
from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.errors import Tampered
from memtape.store.rows import COLUMNS
from memtape.store.schema import TABLES
from tests.effort import SOAK, examples
from tests.tamper.forger import Forger, Forgery, Refused, insertion, update
from tests.tamper.house import at, furnish
from tests.tamper.trial import Trial

PROJECTIONS = ("items", "positions", "trades", "discrepancies")
ALL_KINDS = ("edits", "deletions", "copies", "swaps")


def forgeries(forger: Forger, kind: str, table: str, most: int | None) -> Iterator[Forgery]:
    return getattr(forger, kind)(table, most)  # type: ignore[no-any-return]


@pytest.mark.parametrize("table", TABLES)
def test_the_house_has_something_in_every_column_to_forge(on_sqlite: Trial, table: str) -> None:
    rows = on_sqlite.forger.true[table]
    assert len(rows) >= 2
    never = {c for c in COLUMNS[table] if all(row[c] is None for row in rows)}
    # Closed trades have no cost; the rest takes many bars.
    assert never <= {"avg_cost", "cost_usd", "spread_as_atr_pct", "move_atr", "late_atr"}


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("table", TABLES)
def test_a_forged_row_is_found_and_named(on_sqlite: Trial, table: str, kind: str) -> None:
    most = {"edits": 1, "swaps": 2}.get(kind, 4)  # the soak test takes every row
    for forgery in forgeries(on_sqlite.forger, kind, table, most):
        on_sqlite.attempt(forgery)
    assert on_sqlite.committed
    assert not on_sqlite.verdict(), on_sqlite.verdict()


@pytest.mark.soak
@pytest.mark.parametrize("table", TABLES)
def test_a_superuser_of_postgres_forges_no_better(postgres_house: tuple[Memory, Forger], table: str) -> None:
    trial = Trial(*postgres_house)
    tried: dict[tuple[str, str], Forgery] = {}  # one for each kind and column
    for kind in ALL_KINDS:
        for forgery in forgeries(trial.forger, kind, table, 1):
            tried.setdefault((kind, forgery.what.split()[0]), forgery)
    assert {column for kind, column in tried if kind == "edits"} == set(COLUMNS[table])
    del tried["copies", "owner"]  # row-level security hides another owner's rows from this one's verify
    if not SOAK:
        # What reads a row and compares it is the same code as on SQLite, where every column is forged. Here one column of each
        # type is, because types are what PostgreSQL stores in its own way; the soak test takes every column.
        tried = {kind_and_type(key, forgery): forgery for key, forgery in tried.items()}
    for forgery in tried.values():
        trial.attempt(forgery)
    assert not trial.verdict(), trial.verdict()


def kind_and_type(key: tuple[str, str], forgery: Forgery) -> tuple[str, str]:
    """What a forgery of PostgreSQL stands for: others of the same kind, in columns of the same type."""
    kind, column = key
    return kind, type(forgery.row.get(column)).__name__ if kind == "edits" else column


# ---- the tail of the log ---------------------------------------------------------------------------------------------


def cut_tail(forger: Forger, memory: Memory, stream: str, rows: int) -> None:
    """Take the last rows of a stream away and make everything else agree with it."""
    mine = [row for row in forger.true["log"] if row["stream"] == stream]
    kept, gone = mine[:-rows], mine[-rows:]
    head = next(row for row in forger.true["streams"] if row["stream"] == stream)
    end = {"seq": kept[-1]["seq"] if kept else 0, "hash": kept[-1]["hash"] if kept else "0" * 64}
    forger.commit(Forgery("cut", "log", head, (
        ("DELETE FROM log WHERE stream = ? AND seq >= ?", (stream, gone[0]["seq"])),
        ("DELETE FROM bars WHERE stream = ? AND seq >= ?", (stream, gone[0]["seq"])),
        update("streams", head, end),
    )))  # fmt: skip
    rebuild_store(memory)


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_a_log_cut_without_a_trace_is_found_against_a_head_that_was_exported(house: Trial, rows: int) -> None:
    exported = verify_store(house.memory).heads
    cut_tail(house.forger, house.memory, "aapl", rows)
    assert verify_store(house.memory).ok, "the books agree with themselves: only the exported head can tell"
    audit = verify_store(house.memory, against=exported)
    assert [(p.stream, p.table, p.key) for p in audit.problems] == [("aapl", "log", "20")]


def test_a_stream_taken_out_whole_is_found_against_the_exported_heads(house: Trial) -> None:
    exported = verify_store(house.memory).heads
    for table in TABLES:
        house.forger.hands.run(f"DELETE FROM {table} WHERE stream = ?", "hedge")
    assert [p.key for p in verify_store(house.memory).problems] == ["hedge"]  # the owner's stream still names the agent
    assert ("hedge", "log") in {(p.stream, p.table) for p in verify_store(house.memory, against=exported).problems}


def test_books_emptied_of_everything_are_found_against_the_exported_heads(house: Trial) -> None:
    exported = verify_store(house.memory).heads
    for table in TABLES:
        house.forger.hands.run(f"DELETE FROM {table}")
    gone = {p.stream for p in verify_store(house.memory, against=exported).problems}
    assert gone == {"@owner", "aapl", "diary", "hedge", "paper"}


def test_a_log_without_any_head_is_not_taken_for_an_empty_one(house: Trial) -> None:
    house.forger.hands.run("DELETE FROM streams")
    assert not verify_store(house.memory).ok


def test_a_log_written_anew_with_fitting_hashes_is_found_against_the_exported_head(house: Trial) -> None:
    exported = verify_store(house.memory).heads
    forge_history(house.forger, "aapl", lambda payload: payload.replace('"px":"100"', '"px":"90"'))
    rebuild_store(house.memory)
    assert verify_store(house.memory).ok, "a forger who hashes again leaves books that agree with themselves"
    audit = verify_store(house.memory, against=exported)
    assert [(p.stream, p.table, p.key) for p in audit.problems] == [("aapl", "log", "20")]


def forge_history(forger: Forger, stream: str, alter: Callable[[str], str]) -> None:
    """Change payloads and hash the chain again from there."""
    prev, deeds = "0" * 64, []
    mine = [row for row in forger.true["log"] if row["stream"] == stream]
    for row in mine:
        payload = canonical_plain(json.loads(alter(row["payload"])))
        times = row["occurred_at"], row["known_at"], row["recorded_at"]
        hash_ = chain_hash(stream, row["seq"], row["kind"], row["key"], *times, digest(payload), prev)
        new = {"payload": payload, "payload_hash": digest(payload), "prev_hash": prev, "hash": hash_}
        deeds.append(update("log", row, new))
        prev = hash_
    head = next(row for row in forger.true["streams"] if row["stream"] == stream)
    forger.commit(Forgery("written anew", "log", mine[0], (*deeds, update("streams", head, {"hash": prev}))))


def test_heads_exported_earlier_stay_good_as_the_books_grow(opened: Callable[..., Memory], store_url: str) -> None:
    memory = furnish(opened(store_url))
    exported = verify_store(memory).heads
    memory.agent("hedge").observe({"id": "h9", "t": at(50), "positions": {}})
    assert verify_store(memory, against=exported).ok


def test_a_payload_taken_out_is_found_and_named(house: Trial) -> None:
    house.forger.hands.run("UPDATE log SET payload = NULL WHERE stream = 'aapl' AND seq = 10")
    first = verify_store(house.memory).problems[0]
    assert (first.stream, first.table, first.key) == ("aapl", "log", "10")


# ---- repair ----------------------------------------------------------------------------------------------------------


@st.composite
def vandalism(draw: st.DrawFn) -> list[tuple[str, str, int]]:
    """Some forgeries of projections: which table, which kind, which of them."""
    one = st.tuples(st.sampled_from(PROJECTIONS), st.sampled_from(ALL_KINDS), st.integers(0, 10_000))
    return draw(st.lists(one, min_size=1, max_size=6))


@pytest.mark.soak
def test_a_rebuild_repairs_whatever_was_done_to_the_projections(on_sqlite: Trial) -> None:
    memory, forger = on_sqlite.memory, on_sqlite.forger
    true = verify_store(memory).digests
    known: dict[tuple[str, str], list[Forgery]] = {
        (table, kind): [f for f in forgeries(forger, kind, table, 2) if not f.what.startswith("owner")]  # not ours to mend
        for table in PROJECTIONS for kind in ALL_KINDS
    }  # fmt: skip

    @settings(max_examples=examples(15, 400), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    @given(vandalism())
    def repairs(deeds: list[tuple[str, str, int]]) -> None:
        try:
            for table, kind, n in deeds:
                several = known[table, kind]
                attempt(forger, several[n % len(several)])
            rebuild_store(memory)
            audit = verify_store(memory)
            assert audit.ok, audit.problems
            assert audit.digests == true
        finally:
            forger.restore()

    repairs()


def attempt(forger: Forger, forgery: Forgery) -> None:
    """Commit a forgery unless an earlier one is in its way."""
    try:
        forger.commit(forgery)
    except Refused:
        return


@pytest.mark.parametrize("table", PROJECTIONS)
def test_a_rebuild_makes_a_projection_that_was_emptied(house: Trial, table: str) -> None:
    true = verify_store(house.memory).digests
    house.forger.hands.run(f"DELETE FROM {table}")
    assert not verify_store(house.memory).ok
    rebuild_store(house.memory)
    assert verify_store(house.memory).digests == true


@pytest.mark.parametrize("stream", ["@owner", "aapl", "paper"])
def test_from_a_broken_chain_nothing_is_rebuilt(house: Trial, stream: str) -> None:
    house.forger.hands.run("UPDATE log SET payload = '{}' WHERE stream = ? AND seq = 2", stream)
    house.forger.hands.run("DELETE FROM trades WHERE stream = 'hedge'")
    before = {table: house.forger.rows(table) for table in TABLES}
    with pytest.raises(Tampered, match="log row 2"):
        rebuild_store(house.memory)
    assert {table: house.forger.rows(table) for table in TABLES} == before


def test_a_rebuild_of_honest_books_changes_nothing(house: Trial) -> None:
    before: dict[str, Any] = {table: house.forger.rows(table) for table in TABLES}
    rebuild_store(house.memory)
    assert {table: house.forger.rows(table) for table in TABLES} == before


def test_forged_market_data_is_not_mended_but_still_found(house: Trial) -> None:
    bar = house.forger.true["bars"][0]
    house.forger.commit(Forgery("h", "bars", bar, (update("bars", bar, {"h": bar["h"] + type(bar["h"])("1")}),)))
    rebuild_store(house.memory)
    assert "bars" in {p.table for p in verify_store(house.memory).problems}


def test_a_row_smuggled_in_for_another_owner_is_found(on_sqlite: Trial) -> None:
    row = on_sqlite.forger.true["trades"][0] | {"owner": "nobody"}
    on_sqlite.forger.commit(Forgery("smuggled", "trades", row, (insertion("trades", row),)))
    assert [(p.owner, p.table) for p in verify_store(on_sqlite.memory).problems][:1] == [("nobody", "trades")]
