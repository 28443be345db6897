"""The cost of the system text of a chat, chosen from many facts, compared with reading those facts from the store."""

from __future__ import annotations

from bench.desk import BenchRun
from bench.timing import Result, cpu, judge, time_in_turn
from memtape.compose import open_memory
from memtape.core.facts import FACT_KINDS
from memtape.core.items import OWNER_STREAM, Item
from memtape.core.skills import OWNER_AGENT
from memtape.engine.write.writer import Writer
from memtape.store.cutoff import EVERYTHING

FACTS, CHATS, REPEATS = 1_000, 50, 5


def measure_chat_system(bench: BenchRun) -> dict[str, Result]:
    """Measure `chat_system`."""
    with open_memory(str(bench.folder / "facts.db")) as memory:
        now = memory.clock.now()
        with memory.resources.writing(OWNER_STREAM) as tables:
            # All in one transaction: `remember` would look for an equal one among all earlier facts, each time.
            writer = Writer(tables, OWNER_AGENT, now)
            for n in range(FACTS):
                text = f"Fact {n} about the owner and how the owner trades."
                body = {"text": text, "topic": "risk", "source": "chat", "confidence": "inferred", "by": "model"}
                writer.declare(Item("fact", f"{n:016x}", now, body, f"{n:016x}"), now)
        for n in range(CHATS):
            memory.coach.record_shown(memory.coach.prompt(), chat=f"chat-{n}")
        assert memory.coach.prompt().text.count("\n- [risk] Fact ") == 10

        def read() -> None:
            for _ in range(REPEATS):
                with memory.resources.reading(OWNER_STREAM) as tables:
                    tables.items_of(FACT_KINDS, EVERYTHING)

        def compose() -> None:
            for _ in range(REPEATS):
                memory.coach.prompt()

        (sides,) = time_in_turn([(read, compose)] * bench.scale.rounds, cpu)
    what = f"The system text of a chat, of {FACTS} facts and {CHATS} chats, compared with reading their items."
    return {"chat_system": judge(what, FACTS, sides, 2.0)}
