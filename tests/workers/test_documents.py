"""While memtape serves, documents are in step: by watching, by the clock, whatever becomes of one folder."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

import memtape
from memtape.core.observed import Decision
from memtape.documents import file_watcher
from memtape.documents.file_watcher import FileWatcher
from memtape.engine import Memory
from memtape.engine.documents import sync as syncing
from memtape.errors import Invalid
from memtape.plugs.clock import FixedClock
from memtape.workers.documents import DocumentSync, SyncOutcome, syncing_documents
from tests.desk import NOON
from tests.documents.desk import Letters, write

QUICK = partial(FileWatcher, poll_ms=50, quiet_ms=100, root_check_ms=200)


class Desk:
    """A store with agents whose workspaces are kept in step, and what was told of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.told = folder, list[SyncOutcome]()
        self.clock = FixedClock(NOON)
        self.memory: Memory = memtape.open(str(folder / "desk.db"), clock=self.clock)
        self.memory.create_skill("plain")

    def agent(self, name: str, **files: str):
        self.memory.create_agent(name, skill="plain", mode="paper")
        handle = self.memory.agent(name)
        if files:
            handle.documents.add(write(self.folder / name, {f"{path}.md": text for path, text in files.items()}))
        return handle

    def finds(self, agent: str, words: str) -> bool:
        return bool(self.memory.agent(agent).documents.search(words).hits)

    def problems(self, agent: str) -> dict[str, str]:
        return {each.path: each.problem for each in self.memory.agent(agent).documents.health().problems}

    def synced(self, agent: str) -> list[SyncOutcome]:
        return [told for told in self.told if told.agent == agent]

    @contextmanager
    def keeping(
        self, minutes: float = 60, watcher: Callable[..., FileWatcher] = QUICK, named_seconds: float = 60
    ) -> Iterator[DocumentSync]:
        stop = threading.Event()
        keeper = DocumentSync(self.memory, minutes, on_sync=self.told.append, watcher=watcher, named_seconds=named_seconds)
        thread = threading.Thread(target=keeper.run, args=(stop,))
        thread.start()
        try:
            yield keeper
        finally:
            stop.set()
            thread.join(20)
            assert not thread.is_alive()


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path)
    yield made
    made.memory.close()


def soon(happens: Callable[[], object]) -> bool:
    deadline = time.monotonic() + 30
    while not happens() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(happens())


# --- watched ------------------------------------------------------------------------------------------------------------


def test_what_is_written_renamed_and_deleted_is_found_and_forgotten_without_a_command(desk):
    desk.agent("gold", soul="Never move a stop.")
    with desk.keeping():
        assert soon(lambda: desk.synced("gold"))
        write(desk.folder / "gold", {"journal/2026/05.md": "Silver broke down."})
        assert soon(lambda: desk.finds("gold", "silver"))
        (desk.folder / "gold" / "journal").rename(desk.folder / "gold" / "diary")
        assert soon(
            lambda: [hit.path for hit in desk.memory.agent("gold").documents.search("silver").hits] == ["diary/2026/05.md"]
        )
        (desk.folder / "gold" / "diary" / "2026" / "05.md").unlink()
        assert soon(lambda: not desk.finds("gold", "silver"))


def test_what_changed_while_nothing_ran_is_found_at_the_start(desk):
    desk.agent("gold", soul="Never move a stop.")
    write(desk.folder / "gold", {"missed.md": "platinum"})
    with desk.keeping():
        assert soon(lambda: desk.finds("gold", "platinum"))


def test_a_thousand_writes_are_one_or_two_syncs(desk):
    desk.agent("gold", soul="x")
    with desk.keeping(watcher=partial(FileWatcher, root_check_ms=1000)):
        assert soon(lambda: desk.synced("gold"))
        desk.told.clear()
        for n in range(1000):
            (desk.folder / "gold" / f"{n % 200}.md").write_text(f"note {n}")
        assert soon(lambda: sum(told.synced.added for told in desk.synced("gold")) == 200)
        time.sleep(1.5)
    assert len(desk.synced("gold")) <= 2


def test_only_the_agent_whose_folder_was_touched_is_looked_at_and_a_shared_folder_once(desk):
    gold, _ = desk.agent("gold", soul="x"), desk.agent("silver", soul="x")
    gold.documents.add(write(desk.folder / "shared", {"playbook.md": "x"}), shared=True)
    with desk.keeping():
        assert soon(lambda: len(desk.told) == 3)
        desk.told.clear()
        write(desk.folder / "silver", {"a.md": "y"})
        assert soon(lambda: desk.told) and [told.agent for told in desk.told] == ["silver"]
        write(desk.folder / "shared", {"outage.md": "restart the bridge"})
        assert soon(lambda: desk.finds("gold", "bridge") and desk.finds("silver", "bridge"))
    assert [told.agent for told in desk.told] == ["silver", ""]


def test_a_folder_that_is_named_for_an_agent_meanwhile_is_taken_in_and_watched(desk):
    gold = desk.agent("gold")
    with desk.keeping(named_seconds=0.2):
        gold.documents.add(write(desk.folder / "gold", {"a.md": "x"}))
        assert soon(lambda: desk.synced("gold"))
        write(desk.folder / "gold", {"b.md": "rhodium"})
        assert soon(lambda: desk.finds("gold", "rhodium"))


def test_two_servers_on_one_store_do_no_harm(desk):
    desk.agent("gold", soul="x")
    other = Desk.__new__(Desk)
    other.folder, other.told, other.clock = desk.folder, [], desk.clock
    other.memory = memtape.open(str(desk.folder / "desk.db"), clock=desk.clock)
    with desk.keeping(), other.keeping():
        assert soon(lambda: desk.synced("gold") and other.synced("gold"))
        for n in range(50):
            write(desk.folder / "gold", {f"{n}.md": f"number{n} of iridium"})
        assert soon(lambda: len(other.memory.agent("gold").documents.search("iridium", limit=100).hits) == 50)
        assert soon(lambda: len(desk.memory.agent("gold").documents.search("iridium", limit=100).hits) == 50)
    other.memory.close()
    assert all(told.synced is not None for told in desk.told + other.told)


# --- by the clock -------------------------------------------------------------------------------------------------------


def test_a_decision_is_searchable_after_the_timed_sync_though_no_file_changed(desk):
    gold = desk.agent("gold")
    gold.observe(Decision(symbol="XAUUSD", action="no_trade", reason="spread too wide"))
    with desk.keeping(minutes=0.002, named_seconds=0.1):
        assert soon(lambda: desk.finds("gold", "spread too wide"))
        gold.observe(Decision(symbol="XAUUSD", action="buy", reason="breakout with volume"))
        assert soon(lambda: desk.finds("gold", "breakout with volume"))


def test_an_agent_without_files_and_decisions_costs_nothing(desk):
    desk.agent("gold")
    with desk.keeping(named_seconds=0.1):
        time.sleep(0.5)
    assert desk.told == [] and not (desk.folder / "desk.docs.db").exists()


def test_without_a_timed_sync_and_without_changes_there_is_one_look_at_the_start(desk):
    desk.agent("gold", soul="x")
    with desk.keeping(minutes=0, named_seconds=0.1):
        time.sleep(1)
    assert len(desk.told) == 1


def test_where_the_system_does_not_tell_of_changes_the_timed_sync_does_and_the_health_says_so(desk, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(28, "OS file watch limit reached")

    desk.agent("gold", soul="x")
    with monkeypatch.context() as limited:
        limited.setattr(file_watcher, "RustNotify", refuse)
        with desk.keeping(minutes=0.005):
            write(desk.folder / "gold", {"a.md": "osmium"})
            assert soon(lambda: desk.finds("gold", "osmium"))
            assert soon(lambda: "@watch" in desk.problems("gold"))
    assert desk.problems("gold")["@watch"] == (
        "files are not watched ([Errno 28] OS file watch limit reached): a timed sync finds changes; since 2026-11-15T12:00:00Z"
    )
    desk.memory.agent("gold").documents.sync()
    assert "@watch" in desk.problems("gold"), "a sync that somebody asked for does not watch"
    with desk.keeping():
        assert soon(lambda: "@watch" not in desk.problems("gold"))


# --- trouble ------------------------------------------------------------------------------------------------------------


def test_one_agents_trouble_is_told_in_its_health_and_keeps_no_other_from_its_sync(desk, monkeypatch):
    desk.agent("bad", soul="x"), desk.agent("gold", soul="x")
    real = syncing.sync_index

    def failing(index, owner, agent, *rest, **more):
        if agent == "bad":
            raise Invalid("folder", "the share is down")
        return real(index, owner, agent, *rest, **more)

    with monkeypatch.context() as broken:
        broken.setattr(syncing, "sync_index", failing)
        with desk.keeping(minutes=0.002):
            assert soon(lambda: len(desk.synced("bad")) > 1)
            write(desk.folder / "gold", {"a.md": "palladium"})
            assert soon(lambda: desk.finds("gold", "palladium"))
            desk.clock.at += timedelta(hours=1)
            held = len(desk.synced("bad"))
            assert soon(lambda: len(desk.synced("bad")) > held + 1)
    health = desk.memory.agent("bad").documents.health()
    assert desk.problems("bad") == {"@sync": "the last sync failed: folder: the share is down; since 2026-11-15T12:00:00Z"}
    assert (health.last_sync, health.stale_seconds, health.documents) == (NOON, 3600.0, 1)
    assert desk.problems("gold") == {}
    with desk.keeping():
        assert soon(lambda: desk.problems("bad") == {})


def test_a_workspace_that_is_gone_is_still_served_and_told_since_when_and_taken_in_when_it_is_back(desk):
    gold = desk.agent("gold", soul="Never move a stop.")
    gold.documents.add(write(desk.folder / "more", {"b.md": "ruthenium"}), prefix="more/")
    away = desk.folder / "unmounted"
    with desk.keeping(minutes=0.005):
        assert soon(lambda: desk.synced("gold"))
        (desk.folder / "gold").rename(away)
        desk.clock.at += timedelta(hours=1)
        root = str(desk.folder / "gold")
        assert soon(lambda: root in desk.problems("gold"))
        assert desk.problems("gold")[root].startswith("this folder is not there")
        desk.clock.at += timedelta(hours=1)
        write(desk.folder / "more", {"c.md": "thallium"})
        gold.observe(Decision(symbol="XAUUSD", action="buy", reason="bismuth"))
        assert soon(lambda: desk.finds("gold", "thallium") and desk.finds("gold", "bismuth")), "the rest of it is kept in step"
        health = gold.documents.health()
        assert desk.finds("gold", "never move a stop") and health.last_sync <= NOON + timedelta(hours=1)
        assert health.stale_seconds >= 3600
        assert desk.problems("gold")[root].endswith("since 2026-11-15T13:00:00Z")
        write(away, {"soul.md": "Always wait."})
        away.rename(desk.folder / "gold")
        assert soon(lambda: desk.finds("gold", "always wait") and not desk.problems("gold"))
        assert soon(lambda: gold.documents.health().last_sync == NOON + timedelta(hours=2))


def test_a_workspace_that_may_not_be_entered_is_still_served_and_that_is_told(desk, monkeypatch):
    gold = desk.agent("gold", soul="Never move a stop.")
    root, real = str(desk.folder / "gold"), os.scandir

    def scandir(path="."):
        if str(path) == root:
            raise PermissionError(13, "Permission denied")
        return real(path)

    with monkeypatch.context() as refusing:
        refusing.setattr(os, "scandir", scandir)
        desk.clock.at += timedelta(hours=1)
        assert gold.documents.sync().documents == 1 and desk.finds("gold", "never move a stop")
        assert desk.problems("gold") == {root: "this folder cannot be entered: Permission denied; since 2026-11-15T13:00:00Z"}
        assert (gold.documents.health().last_sync, gold.documents.pending()) == (NOON, None)
        with pytest.raises(Invalid, match="cannot be entered"):
            gold.documents.sync(rebuild=True)
    assert gold.documents.sync().problems == () and gold.documents.health().last_sync == NOON + timedelta(hours=1)


def test_an_agent_that_is_deleted_while_it_is_watched_gets_no_index_back(desk):
    desk.agent("gold", soul="x"), desk.agent("silver", soul="x")
    with desk.keeping():
        assert soon(lambda: len(desk.told) == 2)
        desk.memory.delete_agent("gold", "gold")
        desk.told.clear()
        write(desk.folder / "gold", {"a.md": "y"})
        assert soon(lambda: desk.synced("gold"))
    assert desk.told[0].synced is None and not desk.memory.resources.documents.has_scope("local", "gold")
    assert desk.memory.resources.documents.has_scope("local", "silver")


def test_nor_is_its_trouble_told_of_one_that_is_deleted_in_the_midst_of_a_sync(desk, monkeypatch):
    desk.agent("gold", soul="x")

    def deleted(*_, **__):
        desk.memory.delete_agent("gold", "gold")
        raise Invalid("folder", "the share is down")

    monkeypatch.setattr(syncing, "sync_index", deleted)
    with desk.keeping():
        assert soon(lambda: desk.synced("gold"))
    assert not desk.memory.resources.documents.has_scope("local", "gold")


def test_a_workspace_that_became_a_link_to_another_place_is_not_read(desk):
    gold = desk.agent("gold", soul="Never move a stop.")
    secret = write(desk.folder / "secret", {"key.md": "seed phrase"})
    (desk.folder / "gold").rename(desk.folder / "old")
    (desk.folder / "gold").symlink_to(secret)
    assert gold.documents.sync().documents == 1 and not desk.finds("gold", "seed phrase")
    with pytest.raises(Invalid, match="is not a folder"):
        gold.documents.sync(rebuild=True)
    assert desk.finds("gold", "never move a stop")


def test_a_workspace_that_was_never_there_is_an_error(desk):
    gold = desk.agent("gold", soul="x")
    desk.memory.resources.documents.forget("local", "gold")
    (desk.folder / "gold").rename(desk.folder / "old")
    with pytest.raises(Invalid, match="is not a folder"):
        gold.documents.sync()
    with desk.keeping():
        assert soon(lambda: "@sync" in desk.problems("gold"))
    assert desk.memory.agent("gold").documents.health().last_sync is None


@pytest.mark.parametrize("at", [0, 20_000], ids=["its first page", "pages within"])
def test_a_damaged_index_is_made_anew_for_all_agents(desk, at):
    for name in ("gold", "silver"):
        desk.agent(name, soul="Never move a stop.")
    index = Path(desk.memory.resources.documents.path)
    desk.memory.close()
    with index.open("r+b") as file:
        file.seek(at)
        file.write(b"a sector that went bad " * 2000)
    desk.memory = memtape.open(str(desk.folder / "desk.db"), clock=desk.clock)
    with desk.keeping():
        assert soon(
            lambda: any(told.synced for told in desk.synced("gold")) and any(told.synced for told in desk.synced("silver"))
        )
        assert desk.finds("gold", "stop") and desk.finds("silver", "stop")
    assert index.with_name("desk.docs.db.damaged").exists() and desk.problems("gold") == {}


def test_who_still_holds_a_damaged_index_goes_over_to_the_one_that_another_made(desk):
    desk.agent("gold", soul="Never move a stop.")
    index = Path(desk.memory.resources.documents.path)
    desk.memory.close()
    with index.open("r+b") as file:
        file.seek(20_000)
        file.write(b"a sector that went bad " * 2000)
    desk.memory = memtape.open(str(desk.folder / "desk.db"), clock=desk.clock)
    assert desk.memory.resources.documents.path == str(index)  # open, and not yet looked at
    with memtape.open(str(desk.folder / "desk.db"), clock=desk.clock) as other:
        assert other.resources.set_damaged_documents_aside() and other.agent("gold").documents.sync().documents == 1
    assert not desk.memory.resources.set_damaged_documents_aside() and desk.finds("gold", "stop")


# --- coming and going ---------------------------------------------------------------------------------------------------


def test_nothing_is_left_of_it_when_it_ends(desk):
    desk.agent("gold", soul="x")
    desk.finds("gold", "x")
    threads, held = set(threading.enumerate()), open_files()
    with syncing_documents(desk.memory, on_sync=desk.told.append):
        assert soon(lambda: desk.told)
        assert [each.name for each in set(threading.enumerate()) - threads] == ["memtape-documents"]
    assert set(threading.enumerate()) == threads
    assert soon(lambda: not open_files() - held), open_files() - held


def open_files() -> Counter[str]:
    """What this process has open, the files of stores aside: readers of a store are kept for the next read."""
    found: Counter[str] = Counter()
    for descriptor in Path("/proc/self/fd").iterdir():
        # A descriptor may be closed while the list is read.
        with suppress(FileNotFoundError):
            found[str(descriptor.readlink())] += 1
    return Counter({name: count for name, count in found.items() if ".db" not in Path(name).name})


def test_it_ends_too_when_ctrl_c_comes_while_it_starts(desk, monkeypatch):
    desk.agent("gold", soul="x")
    threads, start = set(threading.enumerate()), threading.Thread.start

    def interrupted(thread):
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), syncing_documents(desk.memory):
        pass
    assert set(threading.enumerate()) == threads


def test_others_read_and_write_while_an_embedder_takes_its_time(desk):
    blocked = list[str]()

    class Slow(Letters):
        def embed(self, texts):
            def work() -> None:
                desk.memory.agent("gold").documents.search("stop")
                desk.memory.agent("gold").observe(Decision(symbol="XAUUSD", action="buy", reason=f"while {texts[0]} is embedded"))
                with desk.memory.resources.documents.cache.writing():
                    pass

            other = threading.Thread(target=work, daemon=True)
            other.start()
            other.join(20)
            blocked.extend(["yes"] if other.is_alive() else [])
            return super().embed(texts)

    desk.agent("gold", soul="Never move a stop.")
    slow = Slow()
    desk.memory.resources.document_embedder = lambda slot: slow
    with desk.keeping():
        assert soon(lambda: slow.asked and desk.synced("gold"))
    assert not blocked and desk.told[0].synced.vectors.made == 1
