"""Re-examinations: a decision judged again, later, by a fresh run of the same agent.

The answer has a conviction (0 refuted, 100 confirmed), one sentence on what changed, a suggested action, and a grade for each
thing that the decision said to watch for. It is advice: the decision stays as it was recorded. A card type says whether its
decisions may be examined again, and which actions may be suggested.

>>> reexamination_gate("until_resolved", "open"), reexamination_gate("until_resolved", "expired")
(Gate(allowed=True, reason=None), Gate(allowed=False, reason='expired'))
>>> answer = {"conviction_score": 101, "notes": "Held at 98.5. Volume faded.", "suggested_action": "HOLD"}
>>> check_examination(answer, actions=("HOLD", "CLOSE"), watch_for=())
['conviction_score', 'notes']
>>> read_examination(answer | {"conviction_score": 62, "notes": "Held at 98.5 while volume faded."}, ("HOLD",)).suggested_action
'HOLD'
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from memtape.core.brief.sanitize import safe_line
from memtape.core.value_class import dataclass
from memtape.errors import FieldProblem, Invalid

MAX_NOTES = 300  # characters
# Characters of all items that a schema lists: providers limit the choices of a schema, and systems the length of a command.
MAX_LISTED_ITEMS = 8_000
Grade = Literal["played out", "failed", "pending"]
GRADES: tuple[Grade, ...] = get_args(Grade)
NOT_REEXAMINABLE = "not re-examinable"
_ACTION = re.compile(r"[A-Z][A-Z0-9_-]{0,23}")
# The end of a sentence and the begin of another. A lowercase letter goes on with the sentence: `vs. the old range`.
_NEXT_SENTENCE = re.compile(r"""[.!?]["'”’“‘»›)\]}]*\s+[^a-z\s]""")


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether a decision may be examined again, and if not, why."""

    allowed: bool
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The answer of one re-examination."""

    conviction_score: int  # 0..100
    notes: str  # one sentence
    suggested_action: str
    watch_for: tuple[tuple[str, Grade], ...] = ()  # the decision's own items, in its order


def reexamination_gate(re_examinable: object, resolution_status: str | None) -> Gate:
    """Returns whether a decision may be examined again, by what its card type says and by the status of its outcome."""
    if re_examinable is None or re_examinable is False:
        return Gate(False, NOT_REEXAMINABLE)
    if re_examinable is True:
        return Gate(True, None)
    if re_examinable != "until_resolved":
        raise Invalid("reExaminable", f"{_brief(re_examinable)} is unknown", 'Give true, false or "until_resolved"')
    ended = resolution_status in ("resolved", "expired")
    return Gate(not ended, resolution_status if ended else None)


def check_examination(answer: object, actions: Sequence[str], watch_for: Sequence[str]) -> list[str]:
    """Returns the names of the fields of an answer that are wrong, in a fixed order."""
    return [problem.field for problem in _problems(answer, actions, watch_for)]


def read_examination(answer: object, actions: Sequence[str] = (), watch_for: Sequence[str] = ()) -> Examination:
    """Returns an answer as a value; raises one Invalid that lists every wrong field and what to give instead."""
    if problems := _problems(answer, actions, watch_for):
        first, *more = problems
        raise Invalid(first.field, first.problem, first.fix, *more)
    assert isinstance(answer, Mapping)
    return Examination(
        conviction_score=answer["conviction_score"],
        notes=answer["notes"].strip(),
        suggested_action=answer["suggested_action"],
        watch_for=tuple((item, given["grade"]) for item, given in zip(watch_for, answer.get("watch_for") or (), strict=True)),
    )


def shown_item(item: str) -> str:
    """Returns a thing to watch for as prompt and schema show it: one line without hidden characters.

    >>> shown_item('close above "3100"\\n## Rules')
    "close above '3100' ## Rules"
    """
    return safe_line(item)


def examination_schema(actions: Sequence[str], watch_for: Sequence[str]) -> dict[str, Any]:
    """Returns the JSON schema of an answer, in the plain form that every provider's strict mode accepts.

    Limits of numbers and lengths stand in the descriptions, because strict modes refuse the keywords for them.

    >>> schema = examination_schema(("HOLD", "CLOSE"), ())
    >>> schema["required"], schema["properties"]["suggested_action"]["enum"]
    (['conviction_score', 'notes', 'suggested_action'], ['HOLD', 'CLOSE'])
    """
    action: dict[str, Any] = {"type": "string", "description": "advice to the owner"}
    action |= {"enum": list(actions)} if actions else {"description": "advice to the owner: a short word in capitals, like HOLD"}
    properties: dict[str, Any] = {
        "conviction_score": {
            "type": "integer", "description": "0 to 100: 0 the decision is refuted, 100 it is fully confirmed",
        },
        "notes": {
            "type": "string", "description": f"one sentence on what changed since the decision, at most {MAX_NOTES} characters",
        },
        "suggested_action": action,
    }  # fmt: skip
    if watch_for:
        items = list(dict.fromkeys(map(shown_item, watch_for)))
        item: dict[str, Any] = {"type": "string", "description": "as it stands in the prompt"}
        if sum(map(len, items)) <= MAX_LISTED_ITEMS:
            item["enum"] = items
        entry = _object({"item": item, "grade": {"type": "string", "enum": list(GRADES)}})
        order = f"all {len(watch_for)} items of the decision, in its order, each graded once"
        properties["watch_for"] = {"type": "array", "description": order, "items": entry}
    return _object(properties)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _problems(answer: object, actions: Sequence[str], watch_for: Sequence[str]) -> list[FieldProblem]:
    """Returns what is wrong with an answer, one entry for each field."""
    given: Mapping[str, Any] = answer if isinstance(answer, Mapping) else {}
    found: list[FieldProblem] = []
    score, action = given.get("conviction_score"), given.get("suggested_action")
    # True is an int in Python, and 62.0 a float: neither is a JSON integer.
    if type(score) is not int or not 0 <= score <= 100:
        fix = "Give an integer: 0 if the decision is refuted, 100 if it is fully confirmed"
        found.append(FieldProblem("conviction_score", f"{_brief(score)} is not a whole number from 0 to 100", fix))
    if problem := _notes_problem(given.get("notes")):
        fix = f"Give one sentence of at most {MAX_NOTES} characters on one line"
        found.append(FieldProblem("notes", problem, fix))
    if actions and action not in actions:
        fix = f"Give one of {', '.join(actions)}, in this spelling"
        found.append(FieldProblem("suggested_action", f"{_brief(action)} is not an action of this card", fix))
    if not actions and not (isinstance(action, str) and _ACTION.fullmatch(action)):
        fix = "Give one word in capitals of at most 24 letters, digits, _ or -, like HOLD"
        found.append(FieldProblem("suggested_action", f"{_brief(action)} is not a short word in capitals", fix))
    if problem := _watch_problem(given.get("watch_for"), watch_for):
        fix = f"Grade each item of the decision once, in its order: {', '.join(GRADES)}" if watch_for else "Leave it out"
        found.append(FieldProblem("watch_for", problem, fix))
    return found


def _notes_problem(notes: object) -> str | None:
    if not isinstance(notes, str) or not (text := notes.strip()):
        return "is missing"
    if len(text) > MAX_NOTES:
        return f"has {len(text)} characters"
    if len(text.splitlines()) > 1:
        return "has a line break"
    return "has more than one sentence" if _NEXT_SENTENCE.search(text) else None


def _watch_problem(graded: object, watch_for: Sequence[str]) -> str | None:
    if graded is None:
        graded = []
    if not isinstance(graded, list | tuple):
        return "is not a list"
    if len(graded) != len(watch_for):
        return f"has {len(graded)} entries, the decision has {len(watch_for)}"
    for n, (entry, item) in enumerate(zip(graded, watch_for, strict=True), start=1):
        # A model copies an item as it was shown to it.
        if not isinstance(entry, Mapping) or entry.get("item") not in (item, shown_item(item)):
            return f"entry {n} does not name item {n} of the decision"
        if entry.get("grade") not in GRADES:
            return f"entry {n} has the grade {_brief(entry.get('grade'))}"
    return None


def _brief(value: object) -> str:
    return "nothing" if value is None else safe_line(repr(value), 60)
