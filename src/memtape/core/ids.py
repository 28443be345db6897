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
TradeId = NewType("TradeId", str)
MemoryId = NewType("MemoryId", str)  # an episode (a trade's id or a shadow's), a plan or a stated belief
PlanId = NewType("PlanId", str)
ReflectionId = NewType("ReflectionId", str)  # one set of lessons; the log calls it a note
LessonId = NewType("LessonId", str)
JournalNoteId = NewType("JournalNoteId", str)
ProposalId = NewType("ProposalId", str)
BatchId = NewType("BatchId", str)  # one import
