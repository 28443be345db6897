"""An agent's memories: recall, beliefs, habits, the affect state; and what the owner corrects, forgets or states of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memtape.core.codec import make_id, plain
from memtape.core.events import MemoryForgotten
from memtape.core.items import Item
from memtape.core.labels import read_side
from memtape.core.memory.belief_statement import BeliefStatement
from memtape.core.memory.episodes import Correction
from memtape.core.observed import Situation
from memtape.core.values import Label, Number, Symbol, read
from memtape.engine.arguments import require_mapping, require_name, require_text
from memtape.engine.checks import check_order
from memtape.engine.plans import Plans
from memtape.engine.view import memories as reads
from memtape.engine.view.memories import DEFAULT_TYPES, RecallQuestion
from memtape.engine.view.view import stated_belief
from memtape.engine.write.corrections import correct_episode, shred_claim
from memtape.engine.write.log_writer import Receipt
from memtape.errors import Conflict, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.memories import MemoryTables

if TYPE_CHECKING:
    from memtape.core.items import StoredItem
    from memtape.core.memory.affect import Affect, AffectStep
    from memtape.core.memory.behaviour import Behaviour
    from memtape.core.memory.beliefs import Belief
    from memtape.core.memory.episodes import Episode
    from memtape.core.observed import Side
    from memtape.core.original.forms import ScoreForm
    from memtape.core.recall.query import Query, RecallParameters
    from memtape.core.recall.reference import Recalled
    from memtape.engine.checks import OrderCheck
    from memtape.engine.scope import AgentScope
    from memtape.engine.view.view import AnswerBasis

_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)] | None


class Memories:
    """The memories of one agent, as of any moment (`as_of`) and any row of its log (`head`)."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope = scope

    # ---- recall ----------------------------------------------------------------------------------------------------

    def recall(
        self, situation: Situation | Mapping[str, Any] | None = None, *, symbol: str | None = None, strategy: str | None = None,
        memory_types: Sequence[str] = DEFAULT_TYPES, limit: int = 10, as_of: datetime | None = None,
        head: int | None = None, profile: str = "owm", explain: bool = False, kelly_beside: bool = False,
        parameters: RecallParameters | None = None, side: Side | None = None,
    ) -> tuple[Recalled, Query, AnswerBasis]:  # fmt: skip
        """What memory has to say about a situation (default: the present one): ranked memories, warnings, evidence."""
        stated = _situation(situation)
        symbol, strategy = read(Symbol | None, symbol, at="symbol"), read(Label | None, strategy, at="strategy")  # type: ignore[arg-type]
        question = RecallQuestion(
            situation=stated, stated=stated, symbol=symbol, strategy=strategy, side=None if side is None else read_side(side),
            memory_types=tuple(memory_types), limit=limit, profile=profile, explain=explain, kelly_beside=kelly_beside,
            parameters=parameters,
        )  # fmt: skip
        with self._scope.view(as_of, head) as view:
            return reads.recall_situation(view, question)

    def notes(
        self, situation: Situation | None = None, *, symbol: str | None = None, strategy: str | None = None,
        as_of: datetime | None = None, head: int | None = None,
    ) -> list[str]:  # fmt: skip
        """What a question asks for and no memory has: labels, a strategy and a symbol, with those that exist."""
        with self._scope.view(as_of, head) as view:
            return list(reads.question_notes(view, situation, symbol, strategy))

    def explain(
        self, id: str, situation: Mapping[str, Any] | None = None, *, as_of: datetime | None = None, head: int | None = None
    ) -> tuple[list[ScoreForm], int, datetime]:
        """The factors of one episode's score in every form, how many episodes were known, and when."""
        with self._scope.view(as_of, head) as view:
            return reads.explained_scores(view, id, _situation(situation))

    def check_order(
        self, *, symbol: str, side: Side, situation: Mapping[str, Any] | None = None, strategy: str | None = None,
        risk_usd: float | None = None, notional_usd: Decimal | None = None, as_of: datetime | None = None,
        head: int | None = None, limit: int = 5,
    ) -> OrderCheck:  # fmt: skip
        """The verdict on an order before it is sent, and everything it rests on."""
        symbol, strategy = read(Symbol, symbol, at="symbol"), read(Label | None, strategy, at="strategy")  # type: ignore[arg-type]
        risk_usd, notional_usd = read(_Amount, risk_usd, at="risk_usd"), read(Number | None, notional_usd, at="notional_usd")  # type: ignore[arg-type]
        with self._scope.view(as_of, head) as view:
            return check_order(
                view, symbol=symbol, side=read_side(side), situation=_situation(situation), strategy=strategy, risk_usd=risk_usd,
                notional_usd=notional_usd, limit=limit,
            )  # fmt: skip

    # ---- episodes, beliefs, habits -----------------------------------------------------------------------------------

    def episodes(self, *, as_of: datetime | None = None, head: int | None = None) -> list[Episode]:
        """Every episode in the version believed at the moment."""
        with self._scope.view(as_of, head) as view:
            return view.episodes()

    def episode(self, id: str, *, as_of: datetime | None = None, head: int | None = None) -> Episode | None:
        """One episode in the version believed at the moment."""
        with self._scope.view(as_of, head) as view:
            return view.episode(id)

    def beliefs(self, *, as_of: datetime | None = None, head: int | None = None) -> tuple[list[Belief], AnswerBasis]:
        """What is believed at the moment, in every status."""
        with self._scope.view(as_of, head) as view:
            return view.beliefs(), view.basis()

    def belief(self, id: str, *, as_of: datetime | None = None, head: int | None = None) -> tuple[Belief, list[str], list[str]]:
        """One belief, with the trades for it and against it."""
        with self._scope.view(as_of, head) as view:
            return reads.belief_with_evidence(view, id)

    def behaviour(
        self, *, strategy: str | None = None, symbol: str | None = None, as_of: datetime | None = None, head: int | None = None
    ) -> tuple[Behaviour, AnswerBasis]:
        """What the agent does repeatedly, in one strategy and symbol or in all."""
        with self._scope.view(as_of, head) as view:
            return reads.habits(view, strategy=strategy, symbol=symbol)

    def behaviours(self, *, as_of: datetime | None = None, head: int | None = None, limit: int = 50) -> list[Behaviour]:
        """The habits of each strategy and symbol among the latest trades, the most traded first."""
        with self._scope.view(as_of, head) as view:
            return reads.habits_by_group(view, limit)

    def corrections(self, id: str, *, as_of: datetime | None = None, head: int | None = None) -> list[StoredItem]:
        """What was stated about an episode later, oldest first: corrections, labels, that it is forgotten."""
        with self._scope.view(as_of, head) as view:
            return sorted(view.items("correction", symbol=id), key=lambda item: item.seq)

    # ---- the affect state ------------------------------------------------------------------------------------------

    def affect(self, *, as_of: datetime | None = None, head: int | None = None) -> Affect:
        """The affect state; calm before anything happened."""
        with self._scope.view(as_of, head) as view:
            return view.affect()

    def affect_step(self, *, as_of: datetime | None = None, head: int | None = None) -> AffectStep | None:
        """The last step of the affect state; None before anything happened."""
        with self._scope.view(as_of, head) as view:
            return view.affect_step()

    def affect_history(self, *, as_of: datetime | None = None, head: int | None = None, limit: int = 200) -> list[AffectStep]:
        """The last steps of the affect state, oldest first."""
        with self._scope.view(as_of, head) as view:
            return view.affect_history(limit)

    def affect_step_count(self, *, as_of: datetime | None = None, head: int | None = None) -> int:
        """How many closes, equity marks and cash flows lie behind the affect state."""
        with self._scope.view(as_of, head) as view:
            return view.affect_step_count()

    # ---- corrections and statements ----------------------------------------------------------------------------------

    def correct(self, id: str, changes: Mapping[str, Any], reason: str) -> Receipt:
        """Correct an episode from now on; what it said before stays on record."""
        id = require_name("memory_id", id)
        corrected = read(Correction, require_mapping("changes", changes)).stated()
        reason = require_text("reason", reason)
        with self._scope.writing() as tables:
            return correct_episode(self._scope.writer(tables), id, corrected, self._scope.stated_at(tables), reason)

    def forget(self, id: str, reason: str = "", *, shred: bool = False) -> Receipt:
        """Forget a memory: an episode, a plan or a stated belief. From now on nothing rests on it; the ledger keeps the trade.

        With `shred`, a trade that the agent itself reported is destroyed in the log too.
        """
        with self._scope.reading() as tables:
            is_plan = any(plan.id == id for plan in MemoryTables(tables).plans())
            is_belief = bool(tables.items("belief", EVERYTHING, keys=[id]))
        if is_plan or is_belief:
            if is_plan:
                Plans(self._scope).forget(id)
            else:
                self.retire_belief(id, reason)
            head = self._scope.head()
            return Receipt(self._scope.agent.id, head.seq, head.hash, (MemoryForgotten(),))
        with self._scope.writing() as tables:
            writer, at = self._scope.writer(tables), self._scope.stated_at(tables)
            if not shred:
                return correct_episode(writer, id, {}, at, reason, forget=True)
            receipt = shred_claim(writer, id, at, reason)
        self._scope.resources.database.scrub(whole=False)
        return receipt

    def state_belief(self, belief: Mapping[str, Any]) -> str:
        """State a belief: in such a situation, trades end so. Returns its id; stating it twice changes nothing."""
        checked = plain(read(BeliefStatement, require_mapping("belief", belief)).checked())
        # A whole number keeps its spelling, because the id is made from it.
        body = {name: belief[name] if type(belief[name]) is int else value for name, value in checked.items()}
        id_ = str(body.pop("id", None) or make_id("stated", self._scope.agent.id, body))
        with self._scope.writing() as tables:
            now = self._scope.stated_at(tables)
            # Reading it raises Invalid where it says nothing that can be tested.
            stated_belief(id_, body, now)
            earlier = tables.items("belief", EVERYTHING, keys=[id_])
            if tables.items("unbelief", EVERYTHING, symbol=id_):
                raise Conflict("id", f"the belief '{id_}' was retired", "State it under another id")
            if earlier:
                if earlier[0].body != body:
                    raise Conflict("id", f"the belief '{id_}' was stated with another content", "Choose another id")
                return id_
            self._scope.writer(tables).declare(Item("belief", id_, now, body), now)
        return id_

    def retire_belief(self, id: str, reason: str = "") -> None:
        """Retire a stated belief."""
        with self._scope.writing() as tables:
            if not tables.items("belief", EVERYTHING, keys=[id]):
                fix = "List them with get_beliefs; induced beliefs retire by themselves"
                raise Unknown("belief_id", "stated belief", id, fix)
            if not tables.items("unbelief", EVERYTHING, symbol=id):
                now = self._scope.stated_at(tables)
                item = Item("unbelief", id, now, {"belief": id, "reason": reason}, id)
                self._scope.writer(tables).declare(item, now)


def _situation(stated: Situation | Mapping[str, Any] | None) -> Situation | None:
    return read(Situation, stated) if stated is not None else None
