"""Three operations on a desk that only keeps orders, and a program that serves them: what surfaces are derived from here.

The memory is a small JSON file, so that several processes can share it.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal

import typer
from pydantic import BaseModel, ConfigDict, Field

from memtape.core.values import Number, Symbol, Time
from memtape.errors import Conflict, Locked, Unknown
from memtape.surfaces.caller import Caller
from memtape.surfaces.cli.commands import add_operations
from memtape.surfaces.cli.groups import command_group
from memtape.surfaces.policy import OperationPolicy
from memtape.surfaces.registry import Operation, operation

DESK: dict[str, Operation] = {}
FOR_MODELS = OperationPolicy("model", "agent")


class Desk:
    """A stub of the engine's Memory: a context manager that can be closed."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.lock = Lock()

    def orders(self) -> dict[str, Any]:
        return dict(json.loads(self.path.read_text())) if self.path.exists() else {}

    def keep(self, orders: dict[str, Any]) -> None:
        self.path.write_text(json.dumps(orders))

    def close(self) -> None:
        self.path.with_suffix(".closed").touch()

    def at_one_state(self) -> AbstractContextManager[Desk]:
        return nullcontext(self)

    def bound_to(self, agent: str) -> Desk:
        return self

    def said_by(self, author: object) -> Desk:
        return self

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Leg(BaseModel):
    model_config = ConfigDict(extra="forbid")
    ratio: int
    symbol: Symbol


class PlaceOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")
    symbol: Annotated[Symbol, Field(description="What to trade.")]
    side: Annotated[Literal["long", "short"], Field(description="Which way.")]
    qty: Annotated[Number, Field(gt=0, description="How much, in base units.")]
    id: Annotated[str | None, Field(description="Your own id of the order.")] = None
    legs: Annotated[list[Leg], Field(description="The legs of a spread.")] = []
    tags: Annotated[list[str], Field(description="Labels of the order.")] = []
    at: Annotated[Time | None, Field(description="When it was placed.")] = None
    agent: Annotated[str | None, Field(description="Whose order it is.")] = None


class Placed(BaseModel):
    id: str
    symbol: str
    side: str
    qty: Decimal
    legs: list[Leg]
    tags: list[str]
    at: datetime | None
    agent: str
    duplicate: bool


class ListOrders(BaseModel):
    model_config = ConfigDict(extra="forbid")
    symbol: Annotated[Symbol | None, Field(description="Only this symbol.")] = None
    limit: Annotated[int, Field(ge=1, le=100, description="How many at most.")] = 20
    tags: Annotated[list[str] | None, Field(description="Only with one of these labels.")] = None
    open_only: Annotated[bool, Field(description="Leave out what is done [sic].")] = False
    where: Annotated[dict[str, Any] | None, Field(description="Further conditions, as an object.")] = None
    cursor: Annotated[str | None, Field(description="Where the last page ended.")] = None
    agent: Annotated[str | None, Field(description="Whose orders.")] = None


class Orders(BaseModel):
    orders: list[Placed]
    where: dict[str, Any] | None
    next_cursor: str | None


class Trouble(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Annotated[Literal["locked", "conflict", "unknown", "bug", "slow"], Field(description="What goes wrong.")]
    note: Annotated[str, Field(description="A word with it.")] = ""


class Calm(BaseModel):
    note: str
    count: int


@operation(writes=True, tools={"trader"}, aliases=("submit_order",), policy=FOR_MODELS, into=DESK)
def place_order(memory: Desk, ask: PlaceOrder, caller: Caller) -> Placed:
    """Place an order.

    The same id again changes nothing [and says so].
    """
    with memory.lock:
        orders = memory.orders()
        key = ask.id or f"o{len(orders) + 1}"
        known = key in orders
        fields = {**ask.model_dump(mode="json"), "id": key, "agent": ask.agent or "main"}
        orders.setdefault(key, fields)
        memory.keep(orders)
        return Placed(**orders[key], duplicate=known)


@operation(writes=False, tools={"trader", "coach"}, policy=FOR_MODELS, into=DESK)
def list_orders(memory: Desk, ask: ListOrders, caller: Caller) -> Orders:
    """The orders of an agent, oldest first."""
    rows = [
        Placed(**row, duplicate=False)
        for row in memory.orders().values()
        if (ask.symbol in (None, row["symbol"])) and (not ask.tags or set(ask.tags) & set(row["tags"]))
    ]
    start = int(ask.cursor or 0)
    page = rows[start : start + ask.limit]
    more = start + ask.limit < len(rows)
    return Orders(orders=page, where=ask.where, next_cursor=str(start + ask.limit) if more else None)


@operation(writes=True, tools={"coach"}, policy=FOR_MODELS, into=DESK)
def make_trouble(memory: Desk, ask: Trouble, caller: Caller) -> Calm:
    """Fail on purpose."""
    if ask.kind == "locked":
        raise Locked(url="desk.db", seconds=5)
    if ask.kind == "conflict":
        raise Conflict("note", "differs from before", "Use another id")
    if ask.kind == "unknown":
        raise Unknown("agent", "agent", "nobody", "Create it first")
    if ask.kind == "bug":
        raise ZeroDivisionError("the secret of the desk")
    import time

    time.sleep(0.3)
    with memory.lock:
        orders = memory.orders()
        orders["calm"] = orders.get("calm", 0) + 1
        memory.keep(orders)
    return Calm(note=ask.note, count=orders["calm"])


def program() -> typer.Typer:
    """The desk's command line, made as memtape's is: derived commands beside `serve` and `mcp`."""
    app = command_group("The desk.")

    @app.command()
    def serve(db: str, port: int = 8300) -> None:
        from memtape.surfaces.cli.printing import reporting
        from memtape.surfaces.http import build_app, listen, run_http

        with reporting(), Desk(db) as memory:
            run_http(build_app(memory, operations=DESK), listen(port=port))  # type: ignore[arg-type]

    @app.command()
    def mcp(db: str, agent: str | None = None, tools: str = "full") -> None:
        from memtape.surfaces.mcp import run_stdio

        run_stdio(lambda: Desk(db), agent=agent, tools=tools, any_agent=True, operations=DESK)  # type: ignore[arg-type, return-value]

    def open_memory(db: str | None, owner: str | None = None) -> Desk:
        if db is None:
            raise Unknown("db", "store", "", "Give --db")
        return Desk(db)

    add_operations(app, open_memory, file=Path(__file__), load=lambda: DESK)  # type: ignore[arg-type]
    return app


if __name__ == "__main__":
    program()()
