"""What may be empty in the log, by whose statement, and what `verify` says about it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, LiteralString

import apsw
import pytest

import memtape
from memtape.compose import open_database
from memtape.core.codec import canonical_plain, chain_hash, digest
from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.engine.proof.projection_health import verification_problems
from memtape.errors import PermissionDenied, StoreFailure
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform
from tests.tamper.forger import Hands
from tests.tamper.house import furnish
from tests.tamper.trial import Trial


def append_row(hands: Hands, stream: str, kind: str, key: str, stated: dict[str, Any], **author: Any) -> None:
    """Write a row at the end of a stream with fitting hashes, and move its head."""
    seq, before = hands.run("SELECT seq, hash FROM streams WHERE stream = ?", stream)[0]
    at = hands.run("SELECT known_at FROM log WHERE stream = ? AND seq = ?", stream, seq)[0][0]
    payload = canonical_plain({"stated": stated, "symbol": "", "concluded": [], **author})
    new = int(seq) + 1
    hash_ = chain_hash(stream, new, kind, key, at, at, at, digest(payload), before)
    hands.run("INSERT INTO log (owner, stream, seq, kind, key, occurred_at, known_at, recorded_at, payload, payload_hash, prev_hash, hash) "
              "VALUES ('local', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", stream, new, kind, key, at, at, at, payload, digest(payload), before, hash_)  # fmt: skip
    hands.run("UPDATE streams SET seq = ?, hash = ? WHERE stream = ?", new, hash_, stream)


def empty_fills(hands: Hands) -> list[int]:
    seqs = [int(row[0]) for row in hands.run("SELECT seq FROM log WHERE stream = 'aapl' AND kind IN ('fill', 'tick') ORDER BY seq")]
    hands.run("UPDATE log SET payload = NULL WHERE stream = 'aapl' AND kind IN ('fill', 'tick')")
    return seqs


@pytest.mark.parametrize("kind", ["erased", "correction", "fact_shredded", "chat_deleted", "agent_deleted"])
def test_a_well_hashed_shred_of_broker_rows_is_found(house: Trial, kind: str) -> None:
    exported = verify_store(house.memory).heads
    seqs = empty_fills(house.forger.hands)
    append_row(house.forger.hands, "aapl", kind, "local",
               {"shredded": seqs, "streams": ["aapl"], "agent": "aapl", "memory": "x", "changes": {}, "forget": True, "facts": []})  # fmt: skip
    first = verify_store(house.memory, against=exported).problems[0]
    assert (first.stream, first.table, first.key, first.problem) == ("aapl", "log", str(seqs[0]), "its payload is missing")


def test_a_deletion_by_a_model_makes_nothing_empty(house: Trial) -> None:
    append_row(house.forger.hands, "@owner", "agent_deleted", "aapl", {"agent": "aapl", "log_rows": 1}, author="model", tier=3)
    seqs = empty_fills(house.forger.hands)
    assert (str(seqs[0]), "its payload is missing") in [(p.key, p.problem) for p in verify_store(house.memory).problems]


def test_deletions_since_a_head_are_named_and_shredded_rows_counted(opened: Callable[..., Memory], store_url: str) -> None:
    memory = furnish(opened(store_url))
    before = verify_store(memory)
    assert {f"local/{head['stream']}": head["shredded"] for head in before.heads if head["shredded"]} == before.shredded and before.deletions == []
    memory.delete_agent("hedge", "hedge")
    after = verify_store(memory, against=before.heads)
    rows = next(head["seq"] for head in before.heads if head["stream"] == "hedge")
    assert after.ok and after.shredded == {**before.shredded, "local/hedge": rows} and after.shredded_since == {"local/hedge": rows}
    assert [text for text in after.deletions if "hedge" in text and "agent_deleted" in text]
    later = verify_store(memory, against=after.heads)
    assert later.ok and later.shredded == after.shredded and later.shredded_since == {} and later.deletions == []


def test_a_bar_whose_price_is_only_spelt_otherwise_is_found(on_sqlite: Trial) -> None:
    on_sqlite.forger.hands.run("UPDATE bars SET c = c || '0' WHERE stream = 'aapl' AND c LIKE '%.%'")
    assert any(p.table == "bars" for p in verify_store(on_sqlite.memory).problems)


def test_the_record_of_migrations_is_verified_and_rebuild_restores_it(tmp_path) -> None:
    path = str(tmp_path / "memory.db")
    furnish(memtape.open(path)).close()
    forger = apsw.Connection(path)
    true = forger.execute("SELECT number, name FROM migrations ORDER BY number").fetchall()
    for deed in ("DELETE FROM migrations WHERE number = 3", "UPDATE migrations SET name = 'other' WHERE number = 2"):
        forger.execute(deed)
        with memtape.open(path) as memory:
            found = verify_store(memory)
            assert [p.table for p in found.problems] == ["migrations"], deed
            assert verification_problems(memory)[0].endswith("Run: memtape migrate")
            rebuild_store(memory)
            assert verify_store(memory).ok
        forger.execute(deed)
        assert open_database(path, migrating=True).migrate() == []
        with memtape.open(path) as memory:
            assert verify_store(memory).ok
        assert forger.execute("SELECT number, name FROM migrations ORDER BY number").fetchall() == true


def test_a_store_whose_last_migration_lost_its_record_opens_and_gets_it_back(tmp_path) -> None:
    path = str(tmp_path / "memory.db")
    furnish(memtape.open(path)).close()
    forger = apsw.Connection(path)
    true = forger.execute("SELECT number, name FROM migrations ORDER BY number").fetchall()
    for deed in ("DELETE FROM migrations WHERE number >= 6", "DELETE FROM migrations"):
        forger.execute(deed)
        with memtape.open(path) as memory:
            assert verify_store(memory).ok
        assert forger.execute("SELECT number, name FROM migrations ORDER BY number").fetchall() == true


@pytest.mark.parametrize("deed", ["DELETE FROM migrations WHERE number = 3", "UPDATE migrations SET name = 'other' WHERE number = 2",
                                  "DELETE FROM migrations WHERE number >= 6", "DELETE FROM migrations", "DROP TABLE migrations"])  # fmt: skip
def test_migrate_restores_the_record_of_migrations_on_a_server(new_postgres: Callable[[], str], deed: LiteralString) -> None:
    import psycopg

    url, query = new_postgres(), "SELECT number, name FROM migrations ORDER BY number"
    open_database(url, migrating=True).migrate()
    with psycopg.connect(url, autocommit=True) as forger:
        true = forger.execute(query).fetchall()
        forger.execute(deed)
        assert open_database(url, migrating=True).migrate() == []
        assert forger.execute(query).fetchall() == true
    with furnish(memtape.open(url)) as memory:
        assert verify_store(memory).ok


def test_migrate_does_not_call_other_tables_those_of_this_version(new_postgres: Callable[[], str]) -> None:
    import psycopg

    url = new_postgres()
    open_database(url, migrating=True).migrate()
    with psycopg.connect(url, autocommit=True) as forger:
        forger.execute("DELETE FROM migrations WHERE number >= 6")
        forger.execute("ALTER TABLE trades DROP COLUMN rate")
        with pytest.raises(StoreFailure):
            open_database(url, migrating=True).migrate()
        assert forger.execute("SELECT max(number) FROM migrations").fetchone() == (5,)


def test_a_model_may_not_shred_its_own_claim(tmp_path) -> None:
    with memtape.open(str(tmp_path / "memory.db")) as memory:
        memory.create_skill("breakout")
        memory.create_agent("gold", skill="breakout")
        model, claim = Caller("model", "gold", bound=True), {"symbol": "BTC", "direction": "long", "entry_price": 100, "exit_price": 90, "pnl": -10}
        perform(memory, find("remember_trade"), claim, model)
        [trade] = perform(memory, find("get_trades"), {}, Caller("owner", "gold"))["trades"]
        with pytest.raises(PermissionDenied, match="owner only"):
            perform(memory, find("forget_memory"), {"memory_id": trade["id"], "shred": True}, model)
        with memory.resources.reading("gold") as tables:
            assert all(row.payload for row in tables.log())
        perform(memory, find("forget_memory"), {"memory_id": trade["id"], "shred": True}, Caller("owner", "gold"))
        assert json.dumps(verify_store(memory).shredded) == '{"local/gold": 1}'
