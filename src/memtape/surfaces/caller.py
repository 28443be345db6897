"""Who calls an operation. Each surface makes a `Caller` in one place and passes it on; nothing reads it from a global.

The command line, HTTP, the pages and Python call as the owner. Every MCP client calls as a model. `policy.py` says which
operations a model may call; `require_owner` refuses the part of an operation that is the owner's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from memtape.core.skills import DEFAULT_AGENT
from memtape.core.value_class import dataclass
from memtape.errors import PermissionDenied

if TYPE_CHECKING:
    from memtape.core.chat_guard import ChatGuard
    from memtape.core.chat_system import ChatMode

Role = Literal["owner", "model"]


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of an operation: its role, and the agent of the surface, used where a call names none.

    A model that calls from memtape's own chat has its guard as `chat`: what the owner has said there decides about facts. Such a
    call also has the id and the mode of the chat.

    >>> Caller("owner").require_owner("delete an agent")
    >>> Caller("model", agent="desk").require_owner("delete an agent")
    Traceback (most recent call last):
    memtape.errors.PermissionDenied: caller: owner only, permission denied for a model. Ask the owner to delete an agent
    """

    role: Role
    agent: str | None = None
    chat: ChatGuard | None = None
    chat_id: str | None = None
    chat_mode: ChatMode | None = None
    over_network: bool = False  # HTTP and the pages: anybody who reaches the port, not only the user who runs memtape
    bound: bool = False  # True: it may neither read nor write for any other agent
    reports: bool = False  # True: the owner lets this model report what the account does, as the operator
    on_text: Callable[[str], None] | None = None  # hears the answer of a model while it is written

    @property
    def own_agent(self) -> str | None:
        """The one agent that a bound caller may reach; None if it may reach all."""
        return (self.agent or DEFAULT_AGENT) if self.bound else None

    @property
    def is_model(self) -> bool:
        """True if a model calls."""
        return self.role == "model"

    def require_own_agent(self, agent: str | None) -> None:
        """Raises `PermissionDenied` if a caller that is bound to its agent names another one."""
        if self.bound and agent not in (None, self.own_agent):
            raise PermissionDenied(
                "agent", f"'{agent}' is another agent, permission denied for the model of '{self.own_agent}'",
                f"Leave agent out; the owner may start the server with --agent {agent} or --any-agent",
            )  # fmt: skip

    def require_owner(self, what: str) -> None:
        """Raises `PermissionDenied` if a model asks for what only the owner may do."""
        if self.is_model:
            raise PermissionDenied("caller", "owner only, permission denied for a model", f"Ask the owner to {what}")
