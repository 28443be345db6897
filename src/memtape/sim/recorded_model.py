"""A model as the trader of an agent: it is briefed and asked by schema, and its answers are recorded before they are acted on.

    tick observed -> brief -> question -> answer recorded with the brief -> decision recorded -> the next symbol

Whatever the moment at which the process is killed, the same run continues: an answer that is on record is not asked for again,
and gives the same decision and orders as before. At most the question in flight is asked twice.

A refusal, an answer that cannot be used and a failure that may pass skip the tick for that symbol. MAX_FAILURES of them in a row
end the run, and a failure that cannot pass, like a wrong key, ends it at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from memtape.core.brief.short_ids import expand_short_ids
from memtape.core.brief.token_estimate import estimate_tokens
from memtape.core.codec import digest, time_text
from memtape.core.decisions.runs import MAX_RUN_NOTE
from memtape.core.decisions.tick_answers import TickAnswer, answer_key
from memtape.core.ids import DecisionId
from memtape.core.observed import Bar
from memtape.engine import AgentMemory
from memtape.engine.brief_question import AssembledBrief
from memtape.errors import Invalid, ModelFailed
from memtape.plugs.answer_schema import enforceable_schema
from memtape.plugs.models import Model
from memtape.sim.account import AccountView
from memtape.sim.model_trader import SHOWN_BARS, ModelQuestion, ProposeOrder, UnusableAnswer, propose_order
from memtape.sim.model_use import ModelUse
from memtape.sim.strategies import OrderProposal

ANSWER_TOKENS = 2_000  # at most; a model that thinks before it answers needs most of them for that
MAX_FAILURES = 10  # in a row
COST_LIMIT, TOKEN_LIMIT, FAILURES = "cost limit", "token limit", f"{MAX_FAILURES} failures in a row"
ESTIMATE_MARGIN = 1.2  # tokens are estimated before a question, and a tokenizer may find more


@dataclass(frozen=True, slots=True)
class UseLimits:
    """What a whole run may cost; None: no limit."""

    max_cost: Decimal | None = None  # US dollars
    max_tokens: int | None = None  # input and output

    def check(self, model: Model) -> None:
        """Raises Invalid if they cannot be kept with this model."""
        if self.max_cost is not None and model.price is None:
            fix = f"Set MEMTAPE_PRICES={model.id}=INPUT/OUTPUT in US dollars for a million tokens, or limit the tokens instead"
            raise Invalid("max_cost", f"the price of {model.id} is not known", fix)


NO_LIMITS = UseLimits()


class RecordedModelTrader:
    """A strategy for `run_simulation` with `observe_first`: every decision is a model's, asked now or on record."""

    def __init__(self, agent: AgentMemory, model: Model, limits: UseLimits = NO_LIMITS) -> None:
        limits.check(model)
        self.name, self.use = model.id, ModelUse(model.id)
        self._agent, self._model, self._limits = agent, model, limits
        self._answers = self._recorded()
        self.count_lessons()
        self._at: datetime | None = None
        self._asked_at = 0  # symbols of this tick
        self._failures = 0  # in a row, of this process

    def propose(self, symbol: str, history: Mapping[str, Sequence[Bar]], account: AccountView, /) -> list[OrderProposal]:
        """Asks the model about one symbol, or takes its answer from the record."""
        self._asked_at = self._asked_at + 1 if self._at == account.t else 1
        self._at = account.t
        if self.use.ended is not None:
            return []
        tick = f"{self._agent.agent.id}-{time_text(account.t)}"
        answer = self._answers.get(answer_key(tick, symbol)) or self._ask(tick, symbol, history, account)
        if answer is None:
            return []
        self.use.answers.append(answer)
        if answer.skipped is not None:
            return []
        proposal = propose_order(answer.data, account, symbol=symbol, strategy=self.name, run=answer.run)
        assert isinstance(proposal, OrderProposal), "it was checked before it was recorded"
        named = None if answer.decision is None else DecisionId(answer.decision)
        return [replace(proposal, decision=replace(proposal.decision, id=named))]

    def _ask(
        self, tick: str, symbol: str, history: Mapping[str, Sequence[Bar]], account: AccountView
    ) -> TickAnswer | None:
        """Asks the model and records what came of it; None if a limit forbids the question."""
        made = self._brief(symbol)
        question = ModelQuestion(
            symbol=symbol, t=account.t, brief=made.brief.of("user"), stable_records=made.brief.stable_records,
            bars=tuple(history[symbol][-SHOWN_BARS:]), account=account,
        )  # fmt: skip
        self.use.ended = self._limit_reached(made.brief.of("system"), question.prompt)
        if self.use.ended is not None:
            return None
        asked = TickAnswer(
            tick=tick, symbol=symbol, at=account.t, model=self._model.id,
            digest=digest(made.brief.of("system") + question.prompt),
        )  # fmt: skip
        answer = self._answered(asked, made, question)
        if answer.skipped is None:
            answer = replace(answer, decision=tick if self._asked_at == 1 else f"{tick}#{self._asked_at}")
        answer = self._record(answer, made)
        self._failures = 0 if answer.skipped is None else self._failures + 1
        if self._failures >= MAX_FAILURES:
            self.use.ended = FAILURES
        return answer

    def _recorded(self) -> Mapping[str, TickAnswer]:
        """The answers that are on record, by key."""
        return self._agent.simulation.answers()

    def _brief(self, symbol: str) -> AssembledBrief:
        """The brief that the model is shown."""
        return self._agent.briefs.make(symbol=symbol)

    def _record(self, answer: TickAnswer, made: AssembledBrief) -> TickAnswer:
        """Puts an answer on record before it is acted on. Returns the one that counts."""
        return self._agent.simulation.record_answer(answer, made)

    def _answered(self, asked: TickAnswer, made: AssembledBrief, question: ModelQuestion) -> TickAnswer:
        try:
            given = self._model.answer(
                made.brief.of("system"), question.prompt, ProposeOrder, max_tokens=ANSWER_TOKENS,
                stable_chars=question.stable_chars,
            )  # fmt: skip
        except ModelFailed as failed:
            # A model that refuses one question may answer the next one. What cannot pass concerns every question.
            if not failed.retry_later and failed.what != "refused":
                raise
            return replace(
                asked, skipped=failed.what, problem=failed.problem[:MAX_RUN_NOTE], input_tokens=failed.input_tokens,
                cached_tokens=failed.cached_tokens, output_tokens=failed.output_tokens, cost_usd=failed.cost_usd,
            )  # fmt: skip
        asked = replace(
            asked, input_tokens=given.input_tokens, cached_tokens=given.cached_tokens, output_tokens=given.output_tokens,
            cost_usd=given.cost_usd,
        )  # fmt: skip
        data = self._with_whole_ids(given.data, made)
        checked = propose_order(data, question.account, symbol=question.symbol)
        if isinstance(checked, UnusableAnswer):
            return replace(asked, skipped=checked.what, problem=checked.problem)
        return replace(asked, answer=json.dumps(data, ensure_ascii=False, sort_keys=True))

    @staticmethod
    def _with_whole_ids(data: dict[str, object], made: AssembledBrief) -> dict[str, object]:
        """Returns an answer whose memories have the ids of the record instead of the short ones of the brief."""
        named, ids = data.get("memories"), [one.source.id for one in made.brief.citations]
        if not isinstance(named, list) or not named:
            return data
        return data | {"memories": [expand_short_ids(str(id), ids) for id in named]}

    def _limit_reached(self, system: str, prompt: str) -> str | None:
        """Returns the limit that the next question could exceed, if it and its answer are as long as they can be."""
        cost, count = self._limits.max_cost, self._limits.max_tokens
        if cost is None and count is None:
            return None
        schema = json.dumps(enforceable_schema(ProposeOrder.model_json_schema(), all_required=True))
        # What the last question had is a better guess than an estimate that knows no tokenizer.
        last = self.use.answers[-1].input_tokens if self.use.answers else None
        tokens = max(int(estimate_tokens(system + prompt + schema) * ESTIMATE_MARGIN), last or 0)
        return self._limit_beyond(tokens, ANSWER_TOKENS, self._model)

    def _limit_beyond(self, tokens: int, answer_tokens: int, model: Model) -> str | None:
        """Returns the limit that a question of so many tokens could exceed, if its answer is as long as it can be."""
        cost, count = self._limits.max_cost, self._limits.max_tokens
        if count is not None and self.use.spent_tokens + tokens + answer_tokens > count:
            return TOKEN_LIMIT
        if cost is not None:
            price, spent = model.price, self.use.spent_usd
            most = None if price is None else price.at_most(tokens, answer_tokens)
            if most is None or spent is None or spent + most > cost:
                return COST_LIMIT
        return None

    def may_draw_lessons(self) -> bool:
        """Returns True if lessons that are due fit into the limits. If not, the run ends, and a higher limit draws them."""
        if self._limits != NO_LIMITS and (asked := self._agent.lessons.due_question()) is not None:
            tokens = int(estimate_tokens(asked.text) * ESTIMATE_MARGIN)
            self.use.ended = self.use.ended or self._limit_beyond(tokens, asked.answer_tokens, asked.model)
        return self.use.ended not in (COST_LIMIT, TOKEN_LIMIT)

    def count_lessons(self) -> None:
        """Count what the lessons drawn so far have used."""
        self.use.lessons = self._agent.simulation.lesson_use()
