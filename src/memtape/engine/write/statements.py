"""What is said of memories: corrections, plans, beliefs of the owner. Each is an event in the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from memtape.core.codec import EPOCH, make_id, plain
from memtape.core.events import Event, MemoryCorrected, MemoryForgotten, MemoryShredded
from memtape.core.ids import MemoryId, PlanId
from memtape.core.items import Item
from memtape.core.memory.episodes import Correction
from memtape.core.memory.plans import PLAN_DAYS, Plan, PlanState, changed_plan_state, new_plan_state
from memtape.core.memory.shadows import shadow_id
from memtape.core.observed import Decision
from memtape.core.values import read
from memtape.engine.view.at_head import stated_belief
from memtape.engine.view.ledger import Reading
from memtape.engine.write.batch import Batch
from memtape.engine.write.learn import learn_from_batch
from memtape.engine.write.writer import Receipt, Writer
from memtape.errors import Conflict, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.memories import MemoryTables
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.engine.memory import Memory


class Stating(Reading):
    """The statements about one agent's memories."""

    memory: Memory

    # ---- what is said of memories later --------------------------------------------------------------------------------

    def correct(self, id: str, changes: Mapping[str, Any], reason: str) -> Receipt:
        """Correct an episode: from now on it says so; what it said before stays on record."""
        return self._say(id, read(Correction, dict(changes)).stated(), False, reason)

    def forget(self, id: str, reason: str = "", *, shred: bool = False) -> Receipt:
        """Forget a memory: an episode, a plan or a stated belief. From now on nothing rests on it; the ledger keeps the trade.

        With `shred`, a trade that the agent itself reported is destroyed in the log too, as if it had never been told.
        """
        with self.memory.reading(self.agent.id) as tables:
            plan = next((p for p in MemoryTables(tables).plans() if p.id == id), None)
            stated = bool(tables.items("belief", EVERYTHING, keys=[id]))
        if plan is not None:
            return self._say_of_plan(id)
        if stated:
            return self._unsay_belief(id, reason)
        return self._shred(id, reason) if shred else self._say(id, {}, True, reason)

    def _say_of_plan(self, id: str) -> Receipt:
        self._plan_status(id, "cancelled", ("proposed", "active", "triggered", "expired"))
        return self._last_receipt()

    def _unsay_belief(self, id: str, reason: str) -> Receipt:
        self.retire_belief(id, reason)
        return self._last_receipt()

    def _last_receipt(self) -> Receipt:
        with self.memory.reading(self.agent.id) as tables:
            head = tables.head()
        return Receipt(self.agent.id, head.seq, head.hash, (MemoryForgotten(),))

    def _shred(self, id: str, reason: str) -> Receipt:
        """Destroy a trade that the agent itself reported."""
        with self.memory.writing(self.agent.id) as tables:
            now, learned = self._said_at(tables), MemoryTables(tables)
            versions = learned.versions(ids=[id])
            if not versions:
                raise Unknown("memory_id", "trade", id, "Find it with recall_memories or get_trades")
            trade = versions[0].trade
            if trade.quality != "claimed":
                raise Conflict("shred", "this trade is the broker's own record", "Forget it without shred, or delete the agent")
            rows = tables.drop_items(("claim", "closing"), trade.leg)
            for item in tables.items("correction", EVERYTHING, symbol=id):
                rows += tables.drop_items(("correction",), item.key)
            rows += self._drop_retellings(tables, id)
            tables.shred_log(rows)
            tables.drop_trade(id)
            writer = Writer(tables, self.agent, self.memory.clock.now())
            body = {"memory": id, "changes": {}, "forget": True, "reason": reason, "shredded": rows}
            receipt = writer.declare(Item("correction", f"{id}#shredded", now, body, id), now,
                                     [MemoryShredded(MemoryId(id), len(rows))])  # fmt: skip
            learned.drop_episodes([id])
            learned.note_changes([id])
            fresh = Batch(changed={"": trade.exit_at}, known_at=trade.entry_at)
            learn_from_batch(tables, self.agent, writer.start, writer.verified_from, fresh)
        self.memory.database.scrub(whole=False)
        return receipt

    def _drop_retellings(self, tables: Tables, id: str) -> list[int]:
        """Remove what told a destroyed trade again: briefs that showed it, notes in which a model put it into words."""
        rows: list[int] = []
        for item in tables.items("brief", EVERYTHING):
            if id in item.body["cited"]:
                rows += tables.drop_items(("brief",), item.key)
        for item in tables.items("note", EVERYTHING):
            told = {trade for lesson in item.body.get("lessons", ()) for trade in lesson.get("trades", ())}
            if item.body["model_used"] != "stats" and id in told:
                rows += tables.drop_items(("note",), item.key)
        return rows

    def _say(self, id: str, changes: dict[str, Any], forget: bool, reason: str) -> Receipt:
        with self.memory.writing(self.agent.id) as tables:
            now = self._said_at(tables)
            versions = MemoryTables(tables).episodes([id])
            standing = next((e for e in versions if e.known_to is None), None)
            if standing is None:
                raise Unknown("memory_id", "episode that stands", id, "Find it with recall_memories or get_trades")
            if not standing.claimed and not {"pnl_r", "pnl_usd"}.isdisjoint(changes):
                raise Conflict("changes", "the outcome of this trade is the broker's own",
                               "Correct it at its source: undo the import, or send the missing fill")  # fmt: skip
            number = len(tables.items("correction", EVERYTHING, symbol=id)) + 1
            writer = Writer(tables, self.agent, self.memory.clock.now())
            said = MemoryForgotten if forget else MemoryCorrected
            told: list[Event] = [said(MemoryId(id), tuple(sorted(changes)))]
            body = {"memory": id, "changes": changes, "forget": forget, "reason": reason}
            receipt = writer.declare(Item("correction", f"{id}#{number}", now, body, id), now, told)
            fresh = Batch(changed={id: standing.exit_at} if standing.kind == "trade" else {})
            if standing.kind == "shadow":
                fresh.shadows = [d for d in self._followed(tables) if shadow_id(self.agent.id, d.id or "") == id]
            learn_from_batch(tables, self.agent, writer.start, writer.verified_from, fresh)
            return receipt

    # ---- plans ---------------------------------------------------------------------------------------------------------

    def plan(self, plan: Mapping[str, Any]) -> PlanState:
        """Make a plan; the same again is the same. One that a model makes is a proposal until the owner confirms it."""
        data = dict(plan)
        data.setdefault("id", make_id("plan", self.agent.id, plain({k: v for k, v in data.items() if k != "expires_at"})))
        with self.memory.writing(self.agent.id) as tables:
            now = self._said_at(tables)
            if now > EPOCH:
                data.setdefault("expires_at", now + timedelta(days=PLAN_DAYS))
            made_ = read(Plan, data).checked()
            learned = MemoryTables(tables)
            earlier = next((p for p in learned.plans() if p.id == made_.id), None)
            if earlier is not None:
                if replace(earlier.plan, expires_at=made_.expires_at) != made_:
                    raise Conflict("id", f"the plan '{made_.id}' exists and says something else", "Choose another id")
                if earlier.status in ("active", "proposed"):
                    return earlier
                again = sum(p.id.startswith(f"{made_.id}-") for p in learned.plans()) + 2
                made_ = replace(made_, id=PlanId(f"{made_.id}-{again}"))  # it has ended: the same plan, made anew
            standing = new_plan_state(plain(made_), now)
            learned.put_plans([standing])
            Writer(tables, self.agent, self.memory.clock.now()).declare(Item("plan", made_.id, now, plain(made_)), now)
            return standing

    def confirm_plan(self, id: str) -> PlanState:
        """Let a proposed plan become active: the owner's word."""
        return self._plan_status(id, "active", ("proposed",))

    def cancel_plan(self, id: str) -> PlanState:
        """Let a plan end."""
        return self._plan_status(id, "cancelled", ("proposed", "active"))

    def _plan_status(self, id: str, status: str, of: tuple[str, ...]) -> PlanState:
        with self.memory.writing(self.agent.id) as tables:
            now = self._said_at(tables)
            learned = MemoryTables(tables)
            standing = next((p for p in learned.plans() if p.id == id), None)
            if standing is None:
                raise Unknown("plan_id", "plan", id, "List them with check_active_plans")
            if standing.status == status:
                return standing
            if standing.status not in of:
                raise Conflict("plan_id", f"the plan '{id}' is {standing.status}", "Make a new one with create_trading_plan")
            standing = changed_plan_state(standing, status, now)
            learned.put_plans([standing])
            number = len(tables.items("plan_status", EVERYTHING, symbol=id)) + 1
            item = Item("plan_status", f"{id}#{number}", now, {"plan": id, "status": status}, id)
            Writer(tables, self.agent, self.memory.clock.now()).declare(item, now)
            return standing

    def _followed(self, tables: Tables) -> list[Decision]:
        keys = [shadow.id for shadow in MemoryTables(tables).shadows()]
        return [read(Decision, item.body) for item in tables.items("decision", EVERYTHING, keys=keys)]

    # ---- beliefs ---------------------------------------------------------------------------------------------------

    def state_belief(self, belief: Mapping[str, Any]) -> str:
        """State a belief: in such a situation, trades end so. The same again is the same; its id."""
        body = plain(dict(belief))
        id_ = str(body.pop("id", None) or make_id("stated", self.agent.id, body))
        with self.memory.writing(self.agent.id) as tables:
            now = self._said_at(tables)
            stated_belief(id_, body, now)  # refused here if it says nothing that can be tested
            earlier = tables.items("belief", EVERYTHING, keys=[id_])
            if tables.items("unbelief", EVERYTHING, symbol=id_):
                raise Conflict("id", f"the belief '{id_}' was retired", "State it under another id")
            if earlier:
                if earlier[0].body != body:
                    raise Conflict("id", f"the belief '{id_}' was stated and says something else", "Choose another id")
                return id_
            Writer(tables, self.agent, self.memory.clock.now()).declare(Item("belief", id_, now, body), now)
        return id_

    def retire_belief(self, id: str, reason: str = "") -> None:
        """Take a stated belief back."""
        with self.memory.writing(self.agent.id) as tables:
            if not tables.items("belief", EVERYTHING, keys=[id]):
                raise Unknown("belief_id", "stated belief", id, "List them with get_beliefs; induced ones retire by themselves")
            if not tables.items("unbelief", EVERYTHING, symbol=id):
                now = self._said_at(tables)
                item = Item("unbelief", id, now, {"belief": id, "reason": reason}, id)
                Writer(tables, self.agent, self.memory.clock.now()).declare(item, now)
