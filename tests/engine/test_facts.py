"""Facts about the owner in the log: one for what is said twice, archived and restored, as of any moment, destroyed for good."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import memtape
from memtape.core.chat_guard import ChatGuard
from memtape.core.items import OWNER_STREAM
from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.engine.proof.transfer import export_store, restore_store
from memtape.errors import Conflict, Invalid, Unknown
from memtape.plugs.clock import FixedClock
from memtape.store.cutoff import Cutoff
from tests.conftest import NOON

DAY = timedelta(days=1)
pytestmark = pytest.mark.any_store


@pytest.fixture
def desk(memory: Memory) -> Memory:
    memory.resources.clock = FixedClock(NOON)
    memory.create_skill("gold", strategy="Buy strength.")
    return memory


def later(memory: Memory, days: float) -> None:
    """Let so many days pass."""
    clock = memory.resources.clock
    assert isinstance(clock, FixedClock)
    clock.at += days * DAY


def log_rows(memory: Memory) -> int:
    with memory.resources.reading(OWNER_STREAM) as tables:
        return tables.head().seq


# ---- remembering ---------------------------------------------------------------------------------------------------------


def test_a_fact_said_twice_is_one_fact(desk):
    first = desk.facts.remember("I never trade alts.", topic="symbols")
    rows = log_rows(desk)
    again = desk.facts.remember("you NEVER trade  alts", topic="other")
    assert (again.fact, again.new, first.new) == (first.fact, False, True)
    assert log_rows(desk) == rows, "the same call a second time writes nothing"


def test_saying_a_fact_again_another_day_counts_as_a_reference(desk):
    first = desk.facts.remember("I never trade alts.").fact
    later(desk, 3)
    again = desk.facts.remember("I never trade alts").fact
    assert (again.created, again.last_referenced, again.times_referenced) == (first.created, NOON + 3 * DAY, 1)


def test_facts_differ_by_what_they_say_and_by_their_skill(desk):
    ids = {desk.facts.remember(*said[:1], skill=said[1]).fact.id for said in (
        ("I trade gold.", None), ("I never trade gold.", None), ("Half the size.", "gold"), ("Half the size.", None),
    )}  # fmt: skip
    assert len(ids) == 4


def test_the_owners_own_fact_is_of_the_profile_and_a_models_of_a_chat(desk):
    own = desk.facts.remember("I never trade alts.", confidence="asserted").fact
    models = desk.facts.remember("Seems to like mean reversion.", author="model").fact
    assert (own.source, own.confidence) == ("profile", "asserted")
    assert (models.source, models.confidence) == ("chat", "inferred")


def test_without_a_chat_a_model_asserts_nothing_and_is_told(desk):
    stored = desk.facts.remember("The owner wants more leverage.", confidence="asserted", quote="more leverage", author="model")
    assert stored.fact.confidence == "inferred" and "inferred" in stored.note


def test_in_a_chat_the_owners_words_assert_a_fact_also_one_that_was_inferred(desk):
    inferred = desk.facts.remember("You never trade alts.", author="model").fact
    chat = ChatGuard().after_owner("For the record: I never trade alts.")
    stored = desk.facts.remember("You never trade alts.", confidence="asserted", quote="I never trade alts", author="model", chat=chat)
    assert (stored.fact.id, stored.fact.confidence, stored.note) == (inferred.id, "asserted", "")


def test_after_a_tool_has_answered_nothing_is_remembered(desk):
    chat = ChatGuard().after_owner("What does my manual say?").after_tool("get_document")
    rows = log_rows(desk)
    with pytest.raises(Conflict, match="tool has answered"):
        desk.facts.remember("The owner wants maximum leverage.", author="model", chat=chat)
    assert log_rows(desk) == rows and desk.facts.all() == []


def test_a_fact_that_does_not_fit_is_refused_by_its_field(desk):
    for text in ("abc", "a" * 501):
        with pytest.raises(Invalid) as refused:
            desk.facts.remember(text)
        assert refused.value.field == "fact"
    with pytest.raises(Unknown) as unknown:
        desk.facts.remember("Half the size.", skill="nowhere")
    assert unknown.value.field == "skill"
    assert desk.facts.all() == []


# ---- changing ------------------------------------------------------------------------------------------------------------


def test_an_edit_changes_what_it_names_and_nothing_else(desk):
    fact = desk.facts.remember("I trade gold.", topic="symbols", skill="gold").fact
    assert desk.facts.edit(fact.id, text="I trade silver.").topic == "symbols"
    changed = desk.facts.edit(fact.id, topic="", skill="")
    assert (changed.text, changed.topic, changed.skill, changed.created) == ("I trade silver.", None, None, fact.created)
    rows = log_rows(desk)
    assert desk.facts.edit(fact.id, text="I trade silver.") == changed and log_rows(desk) == rows


def test_an_edit_that_would_say_what_another_fact_says_is_refused(desk):
    one = desk.facts.remember("I trade gold.").fact
    other = desk.facts.remember("I trade silver.").fact
    with pytest.raises(Conflict, match=one.id):
        desk.facts.edit(other.id, text="i trade GOLD")
    desk.facts.archive(one.id, "user_deleted")
    assert desk.facts.edit(other.id, text="i trade GOLD").text == "i trade GOLD"


def test_the_owner_promotes_and_demotes(desk):
    fact = desk.facts.remember("I trade gold.", author="model").fact
    assert desk.facts.promote(fact.id).confidence == "asserted"
    rows = log_rows(desk)
    assert desk.facts.promote(fact.id).confidence == "asserted" and log_rows(desk) == rows
    assert desk.facts.demote(fact.id).confidence == "inferred"


def test_an_archived_fact_is_kept_with_its_reason_and_comes_back(desk):
    fact = desk.facts.remember("I trade gold.").fact
    gone = desk.facts.archive(fact.id, "user_corrected")
    assert (gone.archived, gone.archived_reason) == (NOON, "user_corrected")
    assert desk.facts.archive(fact.id, "user_deleted") == gone
    assert desk.facts.choose().chosen == ()
    for change in (lambda: desk.facts.edit(fact.id, topic="x"), lambda: desk.facts.promote(fact.id)):
        with pytest.raises(Conflict, match="archived"):
            change()
    assert desk.facts.restore(fact.id) == fact and [each.id for each in desk.facts.choose().chosen] == [fact.id]


def test_a_model_does_not_archive_what_the_owner_asserted_without_the_owners_word(desk):
    fact = desk.facts.remember("I never trade alts.", confidence="asserted").fact
    chat = ChatGuard().after_owner("That is not true any more.")
    for guard in (None, chat.after_tool("search_documents")):
        with pytest.raises(Conflict, match="owner asserted"):
            desk.facts.archive(fact.id, author="model", chat=guard)
    assert desk.facts.archive(fact.id, "user_corrected", author="model", chat=chat).archived == NOON


def test_what_the_owner_archived_a_model_does_not_infer_again(desk):
    fact = desk.facts.remember("You fear losses.", author="model").fact
    desk.facts.archive(fact.id, "user_deleted")
    with pytest.raises(Conflict, match="archived this fact"):
        desk.facts.remember("you fear losses", author="model")
    chat = ChatGuard().after_owner("Honestly, I fear losses.")
    stored = desk.facts.remember("You fear losses.", confidence="asserted", quote="I fear losses", author="model", chat=chat)
    assert (stored.fact.id, stored.fact.archived, stored.fact.confidence) == (fact.id, None, "asserted")


def test_what_a_model_forgot_it_may_remember_again_but_not_as_asserted(desk):
    fact = desk.facts.remember("I never trade alts.", confidence="asserted").fact
    desk.facts.archive(fact.id, "agent_forget", author="model", chat=ChatGuard().after_owner("I trade alts now."))
    again = desk.facts.remember("You never trade alts.", confidence="asserted", author="model")
    assert (again.fact.id, again.fact.archived, again.fact.confidence) == (fact.id, None, "inferred")


def test_a_fact_that_is_not_there_is_named(desk):
    for call in (desk.facts.get, desk.facts.archive, desk.facts.restore, desk.facts.promote, desk.facts.demote, desk.facts.edit,
                 desk.facts.shred):  # fmt: skip
        with pytest.raises(Unknown) as unknown:
            call("nothing")
        assert unknown.value.field == "fact_id"


# ---- the past ------------------------------------------------------------------------------------------------------------


@pytest.mark.each_store
def test_facts_as_of_a_moment_and_as_of_a_log_row_are_those_of_then(desk):
    fact = desk.facts.remember("I trade gold.", topic="symbols").fact
    first = log_rows(desk)
    later(desk, 1)
    desk.facts.edit(fact.id, text="I trade silver.")
    desk.facts.promote(fact.id)
    later(desk, 1)
    desk.facts.archive(fact.id, "user_deleted")
    assert desk.facts.all(Cutoff(NOON - DAY)) == [] == desk.facts.all(Cutoff(head=first - 1))
    assert desk.facts.all(Cutoff(NOON)) == [fact] == desk.facts.all(Cutoff(head=first))
    (then,) = desk.facts.all(Cutoff(NOON + DAY))
    assert (then.text, then.confidence, then.archived) == ("I trade silver.", "asserted", None)
    assert desk.facts.choose(cutoff=Cutoff(NOON + DAY)).block.endswith("- [symbols] I trade silver.")
    assert desk.facts.choose(cutoff=Cutoff(NOON + 2 * DAY)).chosen == ()


# ---- shown and used ------------------------------------------------------------------------------------------------------


def test_two_hundred_facts_over_a_hundred_chats_are_all_shown(desk):
    for n in range(200):
        desk.facts.remember(f"Fact number {n} of the owner.", confidence="asserted" if n % 2 else "inferred")
    seen: set[str] = set()
    for chat in range(100):
        later(desk, 1)
        chosen = desk.facts.choose().chosen
        assert len(chosen) == 10
        desk.facts.record_shown([fact.id for fact in chosen], f"chat-{chat}")
        seen |= {fact.id for fact in chosen}
    assert len(seen) == 200
    facts = desk.facts.all()
    assert all(fact.shown for fact in facts) and not any(fact.times_referenced for fact in facts)


def test_reading_records_nothing_and_a_chat_is_recorded_once(desk):
    fact = desk.facts.remember("I trade gold.").fact
    rows = log_rows(desk)
    desk.facts.choose()
    assert log_rows(desk) == rows
    first, second = desk.facts.record_shown([fact.id], "chat-1"), desk.facts.record_shown([fact.id, "other"], "chat-1")
    assert (second.seq, second.duplicate, first.duplicate) == (first.seq, True, False)
    assert len(desk.facts.get(fact.id).shown) == 1


def test_a_use_is_recorded_once_and_moves_the_fact_forward(desk):
    old, new = desk.facts.remember("I trade gold.").fact, None
    later(desk, 1)
    new = desk.facts.remember("I sleep at night.").fact
    assert [fact.id for fact in desk.facts.choose().chosen] == [new.id, old.id]
    later(desk, 1)
    for _ in range(2):
        desk.facts.record_referenced([old.id, "nothing"], "chat-1/turn-3")
    used = desk.facts.get(old.id)
    assert (used.times_referenced, used.last_referenced, used.shown) == (1, NOON + 2 * DAY, ())
    assert [fact.id for fact in desk.facts.choose().chosen] == [old.id, new.id]


def test_a_fact_of_a_skill_is_chosen_only_with_that_skill_in_focus(desk):
    desk.facts.remember("Half the size.", skill="gold")
    assert desk.facts.choose().chosen == () and desk.facts.choose("silver").chosen == ()
    assert [fact.text for fact in desk.facts.choose("gold").chosen] == ["Half the size."]


# ---- the log -------------------------------------------------------------------------------------------------------------


def busy(memory: Memory) -> str:
    """Facts with every kind of change; returns the id of the one that says zebraquartz."""
    fact = memory.facts.remember("I collect zebraquartz.", topic="odd").fact
    memory.facts.remember("I trade gold.")
    memory.facts.edit(fact.id, text="I collect zebraquartz and okapi.")
    memory.facts.promote(fact.id)
    memory.facts.record_shown([fact.id], "chat-1")
    memory.facts.record_referenced([fact.id], "chat-1/1")
    memory.facts.archive(fact.id, "user_deleted")
    return fact.id


@pytest.mark.each_store
def test_facts_verify_and_are_rebuilt_byte_for_byte(desk):
    busy(desk)
    before, facts = verify_store(desk), desk.facts.all()
    assert before.ok, before.problems
    assert rebuild_store(desk).digests.items() >= {k: v for k, v in before.digests.items() if "items" in k}.items()
    assert desk.facts.all() == facts


@pytest.mark.each_store
def test_a_destroyed_fact_is_gone_and_the_chain_still_verifies(desk):
    id_ = busy(desk)
    desk.create_agent("main", skill="gold")
    assert desk.facts.shred(id_) == 2
    assert [fact.text for fact in desk.facts.all()] == ["I trade gold."]
    with pytest.raises(Unknown):
        desk.facts.get(id_)
    found = verify_store(desk)
    assert found.ok, found.problems
    assert rebuild_store(desk).ok and verify_store(desk).ok
    assert [agent.id for agent in desk.agents()] == ["main"]


def test_no_file_of_the_store_contains_a_word_of_a_destroyed_fact(tmp_path: Path):
    memory = memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NOON))
    id_ = busy(memory)

    def left(word: str) -> int:
        return sum(file.read_bytes().lower().count(word.encode()) for file in tmp_path.glob("desk.*") if file.is_file())

    assert left("zebraquartz") and left("trade gold")
    memory.facts.shred(id_)
    assert left("zebraquartz") == left("okapi") == 0 and left("trade gold")
    memory.close()


def test_a_row_that_says_that_facts_were_destroyed_excuses_no_other_row(desk):
    """A forged statement may name any row: only rows with words of facts may be without their payload."""
    id_ = busy(desk)
    desk.facts.shred(id_)
    with desk.resources.writing(OWNER_STREAM) as tables:
        skill_row = next(row for row in tables.log() if row.kind == "skill")
        tables.shred_log([skill_row.seq])
    problems = verify_store(desk).problems
    assert problems and problems[0].key == str(skill_row.seq)
    assert problems[0].problem == "its payload is missing"


def test_an_export_with_a_destroyed_fact_can_be_restored(tmp_path: Path, desk: Memory, opened: Callable[..., Memory]):
    id_ = busy(desk)
    desk.facts.shred(id_)
    export_store(desk, tmp_path / "all.jsonl", "jsonl")
    other = opened(str(tmp_path / "other.db"))
    restore_store(other, tmp_path / "all.jsonl")
    assert other.facts.all() == desk.facts.all() and verify_store(other).ok
