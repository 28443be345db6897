"""The ids of things, as types of their own: a checker then refuses an agent's id where a trade's id belongs.

Each is an ordinary string at run time. An id is wrapped where it is made (`TradeId(make_id(...))`) or read from a row.
"""

from __future__ import annotations

from typing import NewType

OwnerId = NewType("OwnerId", str)  # the person or tenant that everything belongs to
AgentId = NewType("AgentId", str)  # one running instance of a skill; also the name of its stream
SkillId = NewType("SkillId", str)
TickId = NewType("TickId", str)
DecisionId = NewType("DecisionId", str)
MemoryId = NewType("MemoryId", str)  # an episode, a plan or a stated belief
TradeId = NewType("TradeId", MemoryId)  # the episode of a trade has the trade's own id
PlanId = NewType("PlanId", str)
ReflectionId = NewType("ReflectionId", str)  # one set of lessons; the log calls it a note
LessonId = NewType("LessonId", str)
JournalNoteId = NewType("JournalNoteId", str)
ProposalId = NewType("ProposalId", str)
BatchId = NewType("BatchId", str)  # one import
