"""What an operation is, and the register of all operations. The command line, MCP and HTTP are derived from it.

An operation is a typed function with a docstring:

    @operation(writes=False, tools={"coach"}, columns=("entry_at", "symbol", "net_pnl_usd"))
    def get_trades(memory: Memory, ask: GetTrades, caller: Caller) -> TradesPage:
        \"\"\"List an agent's trades, newest first.\"\"\"

Its name, its input and output models and its description are read from the function, so there is nothing to keep in
sync. `columns` chooses what its tables show on a terminal; `waits` marks one that asks a model, so that a server gives it
a thread of its own. `cli/layout.py` says which command calls it.

The folder `operations/` holds them; `all_operations` imports that folder and returns the register. `operation_named` imports only
the module of one operation, so that a command starts quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from functools import lru_cache
from importlib import import_module
from inspect import cleandoc, signature
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from memtape.core.near_names import meant
from memtape.core.value_class import dataclass
from memtape.core.values import HALF_CHARACTER, invalid_from
from memtape.errors import Invalid, Unknown
from memtape.surfaces.caller import Caller
from memtape.surfaces.cli.layout import command_of
from memtape.surfaces.policy import OperationPolicy, author_of_call, may_call, policy_of, require_access
from memtape.surfaces.translate import EVERY_TABLE, Columns, inputs

if TYPE_CHECKING:
    from memtape.engine import Memory

ToolSet = Literal["full", "trader", "coach"]
TOOL_SETS: tuple[ToolSet, ...] = ("full", "trader", "coach")
REVIEW_TOOL = "get_my_decisions"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of memtape."""

    name: str
    run: Callable[[Memory, Any, Caller], BaseModel]
    params: type[BaseModel]
    result: type[BaseModel]
    writes: bool
    tools: frozenset[str]
    doc: str
    aliases: tuple[str, ...] = ()
    columns: Columns = field(default_factory=dict, hash=False)
    waits: bool = False  # it asks a model and may take minutes
    policy: OperationPolicy | None = None  # of an operation that is not memtape's own; else `policy.py` has it

    @property
    def summary(self) -> str:
        return self.doc.partition("\n")[0]

    @property
    def title(self) -> str:
        return self.name.replace("_", " ").capitalize()

    @property
    def group(self) -> str:
        """What it is about: the name of its module."""
        return self.run.__module__.rpartition(".")[2].replace("_", " ").capitalize()


OPERATIONS: dict[str, Operation] = {}

F = TypeVar("F", bound=Callable[..., BaseModel])


def operation(
    *,
    writes: bool,
    tools: Collection[str] = (),
    aliases: tuple[str, ...] = (),
    columns: Columns | tuple[str, ...] = (),
    waits: bool = False,
    policy: OperationPolicy | None = None,
    into: dict[str, Operation] = OPERATIONS,
) -> Callable[[F], F]:
    """Enter a function into the register. It stays an ordinary function.

    `columns` are those of every table in the answer, or by the name of a table or object in it.
    """

    def enter(function: F) -> F:
        # Only these two annotations are needed at run time: Memory and Caller may stay behind TYPE_CHECKING.
        written = function.__annotations__
        parameters = list(signature(function).parameters)
        if parameters[2:] != ["caller"]:
            raise TypeError(f"operation {function.__name__} takes {', '.join(parameters)}, not memory, ask, caller")
        ask = parameters[1]
        wanted = SimpleNamespace(__annotations__={"ask": written[ask], "answer": written["return"]})
        types = get_type_hints(wanted, globalns=function.__globals__)
        made = Operation(
            name=function.__name__,
            run=function,
            params=types["ask"],
            result=types["answer"],
            writes=writes,
            tools=frozenset(tools),
            doc=cleandoc(function.__doc__ or ""),
            aliases=aliases,
            columns={EVERY_TABLE: columns} if isinstance(columns, tuple) else columns,
            waits=waits,
            policy=policy,
        )
        _check(made, into)
        into[made.name] = made
        return function

    return enter


def _check(made: Operation, register: Mapping[str, Operation]) -> None:
    taken = {name for known in register.values() for name in (known.name, *known.aliases)}
    if repeated := taken.intersection((made.name, *made.aliases)):
        raise TypeError(f"operation {made.name}: the name {', '.join(sorted(repeated))} is taken")
    if not made.doc:
        raise TypeError(f"operation {made.name} has no docstring")
    if unknown := made.tools.difference(TOOL_SETS):
        raise TypeError(f"operation {made.name}: there is no tool set {', '.join(sorted(unknown))}")
    if made.params.model_config.get("extra") != "forbid":
        raise TypeError(f"operation {made.name}: {made.params.__name__} must forbid extra fields")
    if bare := [name for name, each in made.params.model_fields.items() if not each.description]:
        raise TypeError(f"operation {made.name}: {', '.join(bare)} of {made.params.__name__} has no description")


OPERATIONS_FOLDER = Path(__file__).with_name("operations")
OPERATIONS_PACKAGE = "memtape.surfaces.operations"


@lru_cache(maxsize=1)
def all_operations() -> Mapping[str, Operation]:
    """The complete register, by module and in the order of the source, whatever was imported first."""
    for module in _operation_modules():
        import_module(f"{OPERATIONS_PACKAGE}.{module.stem}")
    found = sorted(OPERATIONS.values(), key=lambda known: (known.run.__module__, known.run.__code__.co_firstlineno))
    return {known.name: known for known in found}


def operation_named(name: str) -> Operation:
    """An operation by its own name or an alias; imports its module alone if it can be found without the others."""
    if name not in OPERATIONS:
        for module in _operation_modules():
            if f"\ndef {name}(" in module.read_text(encoding="utf-8"):
                import_module(f"{OPERATIONS_PACKAGE}.{module.stem}")
    return OPERATIONS[name] if name in OPERATIONS else find(name)


def _operation_modules() -> list[Path]:
    return sorted(each for each in OPERATIONS_FOLDER.glob("*.py") if not each.stem.startswith("_"))


def tool_set(name: str) -> ToolSet:
    """The tool set of a name. Raises `Invalid` if there is none."""
    for known in TOOL_SETS:
        if name == known:
            return known
    raise Invalid("tools", f"there is no tool set '{name}'", f"Choose one of {', '.join(TOOL_SETS)}")


def reports_as_operator(text: str | None) -> bool:
    """True if `--reports` says operator: a model may then report what the account does. Raises `Invalid` for other words."""
    if text not in (None, "operator"):
        raise Invalid("reports", f"'{text}' is not a role", "Give operator, or leave it out")
    return text is not None


def in_tool_set(operations: Mapping[str, Operation], tools: ToolSet, caller: Caller) -> dict[str, Operation]:
    """The operations of a tool set that a caller may call; `full` has all, and a caller that reports gets those too."""
    tool_set(tools)
    return {
        name: known
        for name, known in operations.items()
        if may_call(known, caller) and (tools == "full" or tools in known.tools)
    }


def tools_for_agent(
    operations: Mapping[str, Operation], tools: ToolSet, caller: Caller, *, review: bool
) -> dict[str, Operation]:
    """The operations of a tool set for one agent: `trader` has its last decisions only where the owner turned review on."""
    found = in_tool_set(operations, tools, caller)
    return found if review or tools != "trader" else {name: known for name, known in found.items() if name != REVIEW_TOOL}


def find(name: str, operations: Mapping[str, Operation] | None = None) -> Operation:
    """The operation of a name or alias, among these or in the whole register."""
    operations = all_operations() if operations is None else operations
    if name in operations:
        return operations[name]
    for known in operations.values():
        if name in known.aliases:
            return known
    raise Unknown("operation", "operation", name, meant(name, operations))


def perform(memory: Memory, known: Operation, data: object, caller: Caller) -> dict[str, Any]:
    """Check the data, run the operation for the caller, and return plain JSON data.

    If the operation takes an agent and the data names none, it is the caller's agent.
    """
    require_access(known, caller)
    if not isinstance(data, Mapping):
        raise Invalid("input", "is not a JSON object", 'Write the fields by name, like {"agent": "main"}')
    if caller.agent is not None and "agent" in known.params.model_fields and data.get("agent") is None:
        data = {**data, "agent": caller.agent}
    try:
        ask = known.params.model_validate(data)
    except ValidationError as error:
        raise invalid_from(error, lambda: params_schema(known)) from None
    except UnicodeEncodeError:
        raise Invalid("input", HALF_CHARACTER, "Leave it out") from None
    caller.require_own_agent(getattr(ask, "agent", None))
    if caller.own_agent is not None:
        memory = memory.bound_to(caller.own_agent)
    if caller.is_model:
        memory = memory.said_by(author_of_call(known, caller))
    if known.writes:
        answer = known.run(memory, ask, caller)
    else:
        # The agent is looked up, and everything is read, in one transaction: an answer is of one state of the store.
        with memory.at_one_state() as one_state:
            answer = known.run(one_state, ask, caller)
    return answer.model_dump(mode="json", by_alias=True)


def execute(
    memory: Memory,
    name: str,
    data: object,
    *,
    agent: str | None = None,
    operations: Mapping[str, Operation] | None = None,
) -> dict[str, Any]:
    """Perform the operation of that name as the owner: how Python calls operations. Bad data raises a `MemtapeError`."""
    return perform(memory, find(name, operations), data, Caller("owner", agent))


class UntitledSchema(GenerateJsonSchema):
    """A schema without a title per field: the title only repeats the name, and a model pays for each word of a tool."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


@lru_cache(maxsize=512)
def params_schema(known: Operation) -> dict[str, Any]:
    return known.params.model_json_schema(schema_generator=UntitledSchema)


@lru_cache(maxsize=512)
def result_schema(known: Operation) -> dict[str, Any]:
    return known.result.model_json_schema(mode="serialization", schema_generator=UntitledSchema)


def operations_page(operations: Collection[Operation]) -> str:
    """The operations as a page of markdown."""
    return "\n\n".join(["# Operations of memtape", *(paragraph(known) for known in operations)]) + "\n"


WHO_MAY_CALL = {"owner": "the owner", "model": "the owner, a model", "reports": "the owner, a model with `--reports operator`"}
CONCERNED = {"agent": "one agent", "shared": "what all agents share", "agents": "all agents"}


def permissions_page(operations: Collection[Operation]) -> str:
    """Who may call each operation, as a page of markdown."""
    lines = [
        "# Permissions", "",
        "Who may call each operation. The command line, Python, HTTP and the pages call as the owner; every MCP client calls as "
        "a model. A model that is bound to one agent (`--agent`) reaches that agent only.", "",
        "Every new row of the log records its `author` (`owner`, `model` or `venue`) and its `tier` (0 the venue, 1 the owner, 3 "
        "a model). What a model writes has tier 3; its reports have tier 1 where the owner started the server with `--reports "
        "operator`. No row has tier 2: what memtape computes is derived from the log, not written into it. "
        "Rows that were written before this was recorded count as tier 1.", "",
        "| operation | writes | who may call it | concerns | tier of a model's row |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for known in sorted(operations, key=lambda known: known.name):
        policy = policy_of(known)
        author = author_of_call(known, Caller("model", reports=True)) if policy.access != "owner" and known.writes else None
        lines.append(
            f"| `{known.name}` | {'yes' if known.writes else 'no'} | {WHO_MAY_CALL[policy.access]} "
            f"| {CONCERNED[policy.concerns]} | {'' if author is None else author.tier} |"
        )
    return "\n".join([*lines, ""])


def paragraph(known: Operation) -> str:
    """One operation as markdown: its description, what it takes, what it returns."""
    policy = policy_of(known)
    sets = {
        "owner": "Owner only.", "model": f"Tool sets: {', '.join(['full', *sorted(known.tools)])}.",
        "reports": "Owner, or a model with `--reports operator`.",
    }[policy.access]  # fmt: skip
    lines = [f"## {known.name}", "", known.doc, "", f"{'Writes' if known.writes else 'Reads'}. {sets}"]
    lines.append(f"Command: `memtape {command_of(known.name)}`.")
    if known.aliases:
        lines.append(f"Aliases: {', '.join(known.aliases)}.")
    lines += ["", "| takes | form | meaning |", "|---|---|---|"]
    for each in inputs(params_schema(known)):
        name = f"`{each.name}`" + (" (required)" if each.required else "")
        lines.append(f"| {name} | {_cell(each.form)} | {_cell(each.help)} |")
    returned = result_schema(known).get("properties", {})
    lines += ["", "| returns | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(each.get('description', ''))} |" for name, each in returned.items()]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
