"""Asked four ways, an operation gives one answer and one refusal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from memtape.errors import Invalid

from .desk import DESK, Desk
from .parity import Program, through_cli, through_http, through_mcp, through_python

PROGRAM = Program((sys.executable, str(Path(__file__).with_name("desk.py"))), db_option=(), mcp_options=("--tools", "full"))


def test_every_surface_gives_the_same_answer_and_the_same_refusal(tmp_path):
    db = str(tmp_path / "desk.json")
    memory = Desk(db)
    for order in (
        {"id": "a", "symbol": "BTC", "side": "long", "qty": "0.10", "tags": ["trend", "naïve “quotes”"]},
        {"id": "b", "symbol": "EUR/USD", "side": "short", "qty": 2, "legs": [{"symbol": "X", "ratio": -1}]},
    ):
        through_python(memory, "place_order", order, DESK)
    ask: dict[str, Any] = {"limit": 2, "open_only": True, "where": {"ä": [1.5, None]}}
    wrong: dict[str, Any] = {"limit": 101}

    expected = through_python(memory, "list_orders", ask, DESK)
    with pytest.raises(Invalid) as refused:
        through_python(memory, "list_orders", wrong, DESK)
    assert len(expected["orders"]) == 2

    with PROGRAM.serving(db) as address:
        for by_query in (False, True):
            assert through_http(address, "list_orders", ask, by_query=by_query).data == expected
        over_http = through_http(address, "list_orders", wrong)
    assert (over_http.error, over_http.code) == (str(refused.value), 422)

    answered, over_mcp = through_mcp(PROGRAM, db, [("list_orders", ask | {"detail": True}), ("list_orders", wrong)])
    assert (answered.data, over_mcp.error) == (expected, str(refused.value))

    assert through_cli(PROGRAM, db, "list_orders", ask).data == expected
    on_command_line = through_cli(PROGRAM, db, "list_orders", wrong)
    assert on_command_line.code == 2
    assert on_command_line.error == str(refused.value).replace("got 101", "got '101'"), "only the quotes of text differ"
