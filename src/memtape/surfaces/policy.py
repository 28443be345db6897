"""Who may call each operation, in one table: the owner alone, a model too, or a model that the owner lets report for the account.

- `owner`: the owner alone. The command line, Python, HTTP and the pages call as the owner; every MCP client calls as a model.
- `model`: a model too. Some operations allow it less: it closes its own trades, forgets its own claims, proposes plans and edits.
- `reports`: what an account or a venue reports, such as fills, bars and equity. A model is not the broker: it may report only if
  the owner started the server with `--reports operator`.

What an operation concerns decides what a model that is bound to one agent may do with it:

- `agent`: one agent. A bound caller reaches its own agent only.
- `shared`: what all agents of the owner share, such as skills, facts, events and card types.
- `agents`: all agents together. A bound caller sees its own agent only.

An operation without a row in this table fails a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from memtape.core.authors import MODEL_AUTHOR, OWNER_AUTHOR, REPORTING_MODEL, LogAuthor
from memtape.core.value_class import dataclass
from memtape.errors import PermissionDenied

if TYPE_CHECKING:
    from memtape.surfaces.caller import Caller
    from memtape.surfaces.registry import Operation

Access = Literal["owner", "model", "reports"]
Concern = Literal["agent", "shared", "agents"]


@dataclass(frozen=True, slots=True)
class OperationPolicy:
    """Who may call an operation, and what it concerns."""

    access: Access
    concerns: Concern


def _rows(access: Access, concerns: Concern, names: str) -> dict[str, OperationPolicy]:
    return dict.fromkeys(names.split(), OperationPolicy(access, concerns))


POLICY: Mapping[str, OperationPolicy] = {
    # Reads of one agent.
    **_rows("model", "agent", """
        get_brief recall_memories pre_trade_check explain_memory get_trade_reflection
        get_trades get_trade get_open_positions get_strategy_performance get_losses get_equity get_agent_state
        get_decisions get_decision get_my_decisions get_outcome get_decision_results list_reexaminations
        get_beliefs get_belief get_behavioral_analysis get_lessons get_lesson_history
        check_active_plans get_event_reactions list_instruments
        search_documents get_document list_documents find_similar_reports verify_citation get_citations list_pinned index_health
        list_notes list_proposals get_proposal list_runs get_run get_session get_messages get_agent_config
    """),
    # What a model may write for its agent.
    **_rows("model", "agent", """
        record_decision remember_trade close_trade record_shown reexamine_decision append_note propose_edit
        create_trading_plan cancel_plan state_belief correct_memory forget_memory reflect_now reindex_documents
    """),
    **_rows("model", "shared", """
        list_skills show_skill create_skill set_strategy get_upcoming_events record_events list_card_types remember forget
    """),
    **_rows("model", "agents", "list_agents show_agent get_my_deployments get_skill_performance"),
    # What an account or a venue reports.
    **_rows("reports", "agent", """
        observe_tick observe_fill observe_funding observe_trade observe_equity observe_cash_flow observe_bars
        state_instrument record_split record_dividend
    """),
    # What is the owner's.
    **_rows("owner", "agent", """
        get_ledger preview_brief list_shown_briefs get_shown_brief diff_lessons list_imports
        import_file undo_import amend_fill void_fill record_outcome
        confirm_plan retire_lesson promote_lessons label_trade
        pin_document unpin_document suggest_pins accept_proposal reject_proposal
        configure_agent run_agent send_message reset_memory start_chat
    """),
    **_rows("owner", "shared", """
        declare_card_type undo_event_import list_event_imports confirm_strategy
        list_facts edit_fact restore_fact promote_fact demote_fact
        send_chat list_chats get_chat stop_chat delete_chat
    """),
    **_rows("owner", "agents", "create_agent use_skill_version delete_agent erase_owner"),
}  # fmt: skip
NO_POLICY = OperationPolicy("owner", "agents")
DESTRUCTIVE = frozenset({"correct_memory", "forget_memory", "forget", "cancel_plan"})  # what a model may take back


def policy_of(known: Operation) -> OperationPolicy:
    """Returns the policy of an operation. One that nobody declared is the owner's alone."""
    return known.policy or POLICY.get(known.name, NO_POLICY)


def may_call(known: Operation, caller: Caller) -> bool:
    """Returns True if a caller may call an operation at all."""
    access = policy_of(known).access
    return not caller.is_model or access == "model" or (access == "reports" and caller.reports)


def author_of_call(known: Operation, caller: Caller) -> LogAuthor:
    """Returns as whose statement the log records what an operation writes. What a model may report counts as the owner's."""
    if not caller.is_model:
        return OWNER_AUTHOR
    return REPORTING_MODEL if caller.reports and policy_of(known).access == "reports" else MODEL_AUTHOR


def require_access(known: Operation, caller: Caller) -> None:
    """Raises `PermissionDenied` if a caller may not call an operation."""
    if may_call(known, caller):
        return
    if policy_of(known).access == "reports":
        raise PermissionDenied(
            "caller", f"{known.name} is for what the account reports, permission denied for a model",
            "Use remember_trade for a trade of your own; the owner may start the server with --reports operator",
        )  # fmt: skip
    raise PermissionDenied("caller", "owner only, permission denied for a model", f"Ask the owner to {_task(known)}")


def _task(known: Operation) -> str:
    """Returns what an operation does, as the end of a sentence: the first clause of its description."""
    clause = known.summary
    for end in (":", ";", ",", ".", " ("):
        clause = clause.partition(end)[0]
    return clause[:1].lower() + clause[1:]
