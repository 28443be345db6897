"""The system text of a chat from the record: fixed for a chat, made again from its receipt, recorded only when shown."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from memtape.core.items import OWNER_STREAM
from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from memtape.errors import Conflict, Invalid, Unknown
from memtape.plugs.clock import FixedClock
from memtape.surfaces.registry import execute
from tests.conftest import NOON

pytestmark = pytest.mark.any_store


@pytest.fixture
def desk(memory: Memory) -> Memory:
    memory.resources.clock = FixedClock(NOON)
    memory.create_skill("gold", strategy="Buy strength.")
    memory.create_agent("desk", skill="gold", mode="sim")
    memory.facts.remember("I never trade alts.", topic="symbols", confidence="asserted")
    memory.facts.remember("Half the size.", skill="gold")
    return memory


def log_rows(memory: Memory) -> int:
    with memory.resources.reading(OWNER_STREAM) as tables:
        return tables.head().seq


def test_reading_writes_nothing_and_showing_is_recorded_once(desk):
    rows = log_rows(desk)
    prompt = desk.coach.prompt()
    assert log_rows(desk) == rows and not any(fact.shown for fact in desk.facts.all())
    first, again = (desk.coach.record_shown(prompt.receipt) for _ in range(2))
    assert (again.seq, again.duplicate, log_rows(desk)) == (first.seq, True, rows + 1)
    shown = {fact.text: len(fact.shown) for fact in desk.facts.all()}
    assert shown == {"I never trade alts.": 1, "Half the size.": 0}
    assert not any(fact.times_referenced for fact in desk.facts.all()) and verify_store(desk).ok


def test_the_skill_of_the_agent_is_in_focus(desk):
    text = desk.coach.prompt(agent="desk").text
    assert "Half the size." in text and "the skill gold and the agent desk" in text
    assert "Half the size." not in desk.coach.prompt().text
    for asked, field in (({"agent": "nobody"}, "agent"), ({"skill": "nothing"}, "skill")):
        with pytest.raises(Unknown) as unknown:
            desk.coach.prompt(**asked)
        assert unknown.value.field == field
    for asked, field in (({"level": "expert"}, "level"), ({"mode": "party"}, "mode")):
        with pytest.raises(Invalid) as refused:
            desk.coach.prompt(**asked)
        assert refused.value.field == field


def test_a_chat_keeps_its_facts_whatever_changes_meanwhile(desk):
    begun = desk.coach.prompt(agent="desk")
    desk.coach.record_shown(begun, chat="chat-1")
    desk.resources.clock.at += timedelta(hours=1)
    (alts,) = [fact for fact in desk.facts.all() if fact.topic == "symbols"]
    desk.facts.edit(alts.id, text="I trade alts on Sundays.")
    desk.facts.remember("I sleep at night.")
    assert desk.coach.again(begun.question).text == begun.text
    fresh = desk.coach.prompt(agent="desk").text
    assert "I trade alts on Sundays." in fresh and "I sleep at night." in fresh and fresh != begun.text


def test_a_receipt_that_was_altered_is_refused(desk):
    receipt = desk.coach.prompt().receipt
    data = json.loads(receipt)
    for change, error in (
        ({"digest": "0" * 64}, Conflict), ({"owner_head": 10**6}, Invalid), ({"level": "expert"}, Invalid), ({"version": 99}, Conflict),
        ({"mode": "ops"}, Conflict),
    ):  # fmt: skip
        with pytest.raises(error):
            desk.coach.record_shown(json.dumps(data | change))
    with pytest.raises(Invalid):
        desk.coach.record_shown("yesterday's")
    assert not any(fact.shown for fact in desk.facts.all())


def test_a_destroyed_fact_is_in_no_chat_any_more(desk):
    begun = desk.coach.prompt()
    (alts,) = [fact for fact in desk.facts.all() if fact.topic == "symbols"]
    desk.facts.shred(alts.id)
    assert "alts" not in desk.coach.again(begun.question).text
    with pytest.raises(Conflict):
        desk.coach.record_shown(begun.receipt)


def test_record_shown_takes_a_receipt_of_either_kind(desk):
    brief = execute(desk, "get_brief", {"agent": "desk"})["receipt"]
    assert execute(desk, "record_shown", {"agent": "desk", "brief": brief})["stream"] == "desk"
    answer = execute(desk, "record_shown", {"brief": desk.coach.prompt().receipt})
    assert answer["stream"] == OWNER_STREAM
    assert [agent.id for agent in desk.agents()] == ["desk"], "facts belong to no agent, so none is made for them"
