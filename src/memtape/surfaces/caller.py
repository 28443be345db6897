"""Who calls an operation. Each surface makes a `Caller` in one place and passes it on; nothing reads it from a global.

The command line, HTTP, the pages and Python call as the owner. Every MCP client calls as a model: it may read, record and
propose, and `require_owner` refuses the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from memtape.core.chat_guard import ChatGuard
from memtape.core.chat_system import ChatMode
from memtape.errors import Conflict

Role = Literal["owner", "model"]


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of an operation: its role, and the agent of the surface, used where a call names none.

    A model that calls from memtape's own chat has its guard as `chat`: what the owner has said there decides about facts. Such a
    call also has the id and the mode of the chat.

    >>> Caller("owner").require_owner("delete an agent")
    >>> Caller("model", agent="desk").require_owner("delete an agent")
    Traceback (most recent call last):
    memtape.errors.Conflict: caller: owner only, permission denied for a model. Ask the owner to delete an agent
    """

    role: Role
    agent: str | None = None
    chat: ChatGuard | None = None
    chat_id: str | None = None
    chat_mode: ChatMode | None = None
    over_network: bool = False  # HTTP and the pages: anybody who reaches the port, not only the user who runs memtape
    bound: bool = False  # True: it may neither read nor write for any other agent
    on_text: Callable[[str], None] | None = None  # hears the answer of a model while it is written

    @property
    def is_model(self) -> bool:
        """True if a model calls."""
        return self.role == "model"

    def require_own_agent(self, agent: str | None) -> None:
        """Raises `Conflict` if a caller that is bound to its agent names another one."""
        if self.bound and agent not in (None, self.agent):
            raise Conflict("agent", f"'{agent}' is another agent, permission denied for the model that runs {self.agent}",
                           "Leave agent out")  # fmt: skip

    def require_owner(self, what: str) -> None:
        """Raises `Conflict` if a model asks for what only the owner may do."""
        if self.is_model:
            raise Conflict("caller", "owner only, permission denied for a model", f"Ask the owner to {what}")
