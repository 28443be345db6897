"""A store that version 0.1 made still opens, verifies, rebuilds and answers in the same bytes.

`tests/fixtures/make_store_0_1.py` made the store and asked it; `tests/fixtures/README.md` says what is in the files.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

from tests.recorded_names import by_todays_names

# ---- the names of today: if a name of memtape changes, this section is the only place to change ----------------------------


def open_store(path: Path, moment: str) -> Any:
    """The memory of the owner `local` in a SQLite file, with a clock that stands."""
    from memtape.compose import open_memory
    from memtape.plugs.clock import FixedClock

    return open_memory(f"sqlite:///{path}", "local", FixedClock(datetime.fromisoformat(moment)))


def set_clock(memory: Any, moment: str) -> None:
    """Let the clock of a memory stand at another moment."""
    memory.clock.at = datetime.fromisoformat(moment)


def ask(memory: Any, name: str, data: dict[str, Any]) -> dict[str, Any]:
    """The JSON answer of an operation; of a refusal only the field that is wrong, because its words may be put better."""
    from memtape.errors import MemtapeError
    from memtape.surfaces.registry import execute

    try:
        if name == "get_upcoming_events":
            return events_by_old_names(memory, **data)
        return execute(memory, name, data)
    except MemtapeError as error:
        return {"refused": str(error).partition(":")[0]}


def events_by_old_names(
    memory: Any, hours: float = 24, impact: str | None = None, currency: str | None = None, as_of: str | None = None
) -> dict[str, Any]:
    """The calendar as 0.1 was asked for it. Today's operation looks at most 72 hours ahead and has other names."""
    from memtape.core.calendar import event_payload, upcoming_events
    from memtape.core.codec import time_text
    from memtape.store.cutoff import Cutoff

    at = datetime.fromisoformat(as_of) if as_of else memory.clock.now()
    found = upcoming_events(memory.events(Cutoff(at if as_of else None)), at, timedelta(hours=hours))
    rows = [event_payload(event) for event in found]
    rows = [row for row in rows if impact in (None, row.get("impact")) and currency in (None, row.get("currency"))]
    order = ("id", "t", "name", "currency", "impact", "actual", "forecast", "previous")
    listed = [{name: row[name] for name in order if name in row} for row in rows]
    return {"as_of": time_text(at), "events": listed, "n": len(listed)}


def reading_operations() -> list[str]:
    """The names of the operations that write nothing."""
    from memtape.surfaces.registry import all_operations

    return sorted(name for name, known in all_operations().items() if not known.writes)


def verified(memory: Any) -> dict[str, Any]:
    """What `memtape verify` reports: problems, counts, digests of the tables, heads of the chains."""
    from memtape.engine.proof.audit import verify_store

    found = verify_store(memory)
    problems = [f"{p.stream}/{p.table}/{p.key}: {p.problem}" for p in found.problems]
    return {"problems": problems, "log_rows": found.log_rows, "rows": found.rows, "digests": found.digests, "heads": found.heads}


def rebuilt(memory: Any) -> dict[str, str]:
    """Make every projection anew; the digests of the tables."""
    from memtape.engine.proof.audit import rebuild_store

    return rebuild_store(memory).digests


def export_to(memory: Any, path: Path, form: str) -> None:
    """Write an export."""
    from memtape.engine.proof.transfer import export_store

    export_store(memory, path, form)


def restore_from(memory: Any, path: Path) -> None:
    """Bring an export into an empty store."""
    from memtape.engine.proof.transfer import restore_store

    restore_store(memory, path)


# ---- the files -------------------------------------------------------------------------------------------------------------

FIXTURES = Path(__file__).parents[1] / "fixtures"
STORE = FIXTURES / "store_0_1.db.gz"
ANSWERS = FIXTURES / "store_0_1.json.gz"
# The answers that rules changed since, as `tests/fixtures/record_rules.py` recorded them: the rules of money (docs/upgrading.md),
# then the outcomes of decisions, which took the place of the table of shadows, then labels, sessions and sources, then dust, then
# drawdowns as shares of the money that was there.
CHANGED = [FIXTURES / f"store_0_1_rules_{version}.json.gz" for version in (2, 3, 4, 5, 7)]
PAPERS = FIXTURES / "store_0_1_documents"
FOLDER = "<folder>"  # stands for the folder of documents, which is another one in each test
# The folder of documents that the store names. It is not there when the answers are taken, and must not be there now.
WORKSPACE = Path("/tmp/memtape-fixture-workspace")
WRITTEN = datetime.fromisoformat("2026-06-01T06:00:00+00:00").timestamp()  # when the documents count as written
PRESENT_SETTINGS = ("MEMTAPE_", "ANTHROPIC_", "OPENAI_")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def exported(memory: Any, folder: Path) -> dict[str, str]:
    """The sha256 of each file of an export, in the forms whose bytes memtape alone decides."""
    export_to(memory, folder / "all.jsonl", "jsonl")
    export_to(memory, folder / "csv", "csv")
    export_to(memory, folder / "trades.md", "markdown")
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): sha256(file.read_bytes()) for file in files}


def lay_out_papers(folder: Path) -> Path:
    """A folder with the documents of the fixture, each written at the same moment."""
    for file in sorted(PAPERS.rglob("*.md")):
        copy = folder / file.relative_to(PAPERS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
        os.utime(copy, (WRITTEN, WRITTEN))
    return folder


def with_folder(data: Any, told: str, meant: str) -> Any:
    """The same data with one name of the folder in place of the other."""
    return json.loads(json.dumps(data).replace(json.dumps(told)[1:-1], json.dumps(meant)[1:-1]))


def first_difference(was: Any, now: Any, at: str = "answer") -> str | None:
    """Where two pieces of JSON first differ: in a value, in a length, or in the order of the fields. Fields may have been added.

    >>> first_difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]})
    'answer.a[1].b was 2, is 3'
    >>> first_difference({"a": 1, "b": 2}, {"b": 2, "a": 1})
    "answer had the fields ['a', 'b'], has ['b', 'a']"
    >>> first_difference([1, {"a": 1}], [1, {"a": 1, "b": 2}])
    """
    if isinstance(was, dict) and isinstance(now, dict):
        if list(was) != [name for name in now if name in was]:
            return f"{at} had the fields {list(was)}, has {list(now)}"
        found = (first_difference(was[key], now[key], f"{at}.{key}") for key in was)
        return next((one for one in found if one), None)
    if isinstance(was, list) and isinstance(now, list):
        found = (first_difference(a, b, f"{at}[{n}]") for n, (a, b) in enumerate(zip(was, now, strict=False)))
        length = None if len(was) == len(now) else f"{at} had {len(was)} entries, has {len(now)}"
        return next((one for one in found if one), length)
    if type(was) is type(now) and was == now:
        return None
    if isinstance(was, str) and isinstance(now, str) and "\n" in was:  # of a long text only the lines
        lines = [
            line for line in unified_diff(was.splitlines(), now.splitlines(), n=0, lineterm="") if line[:3] not in ("---", "+++")
        ]
        own = [line for line in lines if line[:2] != "@@" and "RECORDS " not in line]  # the mark of a brief follows from the rest
        return f"{at} differs in the lines {(own or lines)[:4]}"
    return f"{at} was {was!r}, is {now!r}"


def assert_same(was: Any, now: Any, asked: str) -> None:
    difference = first_difference(was, json.loads(json.dumps(now)))
    assert difference is None, f"{asked}: {difference}"


# ---- the tests -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """What version 0.1 answered."""
    assert not WORKSPACE.exists(), f"{WORKSPACE} must not be there: the answers say that it is not"
    return recorded_answers(CHANGED)


def recorded_answers(changed: list[Path]) -> dict[str, Any]:
    """What version 0.1 answered, with the changes of later rules."""
    found = json.loads(gzip.decompress(ANSWERS.read_bytes()))
    for file in changed:
        found = with_changes(found, json.loads(gzip.decompress(file.read_bytes())))
    for kind in ("answers", "receipts", "documents"):
        found[kind] = [[*question, by_todays_names(answer)] for *question, answer in found[kind]]
    return found


def with_changes(recorded: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    """What version 0.1 answered, with those answers replaced that rules changed since."""
    answers = {json.dumps([name, data]): answer for name, data, answer in changed["answers"]}
    receipts = {json.dumps([moment, name, data]): answer for moment, name, data, answer in changed["receipts"]}
    whole = {name: changed[name] for name in ("verified", "rebuilt", "exported", "verified_after", "rebuilt_after")}
    return recorded | whole | {
        "answers": [[n, data, answers.get(json.dumps([n, data]), answer)] for n, data, answer in recorded["answers"]],
        "receipts": [[m, n, data, receipts.get(json.dumps([m, n, data]), answer)] for m, n, data, answer in recorded["receipts"]],
    }  # fmt: skip


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Opens a copy of the store, or an empty one, under the default settings."""
    for name in [name for name in os.environ if name.startswith(PRESENT_SETTINGS)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    memories: list[Any] = []

    def open_(moment: str, *, empty: bool = False) -> Any:
        path = tmp_path / f"store{len(memories)}.db"
        if not empty:
            path.write_bytes(gzip.decompress(STORE.read_bytes()))
        memories.append(open_store(path, moment))
        return memories[-1]

    yield open_
    for memory in memories:
        memory.close()


# What deliberately differs from 0.1:
# - 0.1 showed the affect history of a past moment from steps that rest on what became known later. It is now what was known then.
# - 0.1 listed beliefs that are worth testing in a recall with `head` although "semantic" was not among its memory types; without
#   `head` it listed none. Now there are none with `head` either. No recorded answer shows it; a test below does.
# - A check names an event by its title in quotes, because the title is somebody's text, and lists events by today's names.
# - `equity` of the state, and the equity of which a check's `risk_share` is a share, left out deposits and withdrawals. Both are
#   now the account's; `equity_without_flows` is the old figure. A test below says so. The drawdown was a share of equity without
#   flows too, and is now one of the money that was there.
# - A question for a strategy that no memory has is answered with a note that names those that exist.
# - `max_drawdown_pct` of an account with a withdrawal was a share of equity that was no longer there. A test below says that nothing
#   else of these answers changed.
EQUITY_WITHOUT_FLOWS = [
    ("get_agent_state", {"agent": "desk", "history": 3}),
    ("get_agent_state", {"agent": "desk", "as_of": "2026-05-21T11:00:00Z", "head": 24, "history": 3}),
]
FOLLOWS_FROM_DRAWDOWN = ("drawdown_pct", "drawdown_state", "risk_appetite", "risk_appetite_grossman_zhou")
DRAWDOWNS_AFTER_A_WITHDRAWAL = [
    (name, {"agent": "desk", **cutoff})
    for name in ("get_strategy_performance", "get_equity")
    for cutoff in ({}, {"as_of": "2026-05-21T11:00:00Z"}, {"as_of": "2026-05-21T11:00:00Z", "head": 24})
]
CORRECTED_SINCE = [
    *DRAWDOWNS_AFTER_A_WITHDRAWAL,
    ("get_agent_state", {"agent": "desk", "as_of": "2026-05-17T03:00:00Z", "history": 3}),
    ("get_agent_state", {"agent": "desk", "as_of": "2026-05-21T11:00:00Z", "history": 3}),
    ("get_agent_state", {"agent": "diary", "as_of": "2026-05-24T08:00:00Z", "history": 3}),
    *EQUITY_WITHOUT_FLOWS,
    (
        "pre_trade_check",
        {"agent": "desk", "symbol": "BTC", "side": "long", "entry_price": "65000", "stop": "64000", "qty": "0.5",
         "context": {"regime": "ranging", "session": "london"}},
    ),
    (
        "pre_trade_check",
        {"agent": "diary", "symbol": "XAU", "side": "long", "entry_price": "2400", "stop": "2390", "target": "2400",
         "context": {"regime": "trending", "session": "us", "atr_d1": 1150.0, "price": 65000}, "as_of": "2026-05-24T08:00:00Z"},
    ),
]  # fmt: skip


def test_every_answer_of_a_store_made_by_0_1_is_the_same(opened: Callable[..., Any], recorded: dict[str, Any]) -> None:
    memory = opened(recorded["now"])
    different = []
    for name, data, answer in recorded["answers"]:
        if (name, data) in CORRECTED_SINCE:
            continue
        now = json.loads(json.dumps(ask(memory, name, data)))
        if difference := first_difference(answer, now):
            different.append(f"{name} {json.dumps(data)}: {difference}")
    told = "\n".join(different[:20])
    assert not different, f"{len(different)} of {len(recorded['answers'])} answers differ, the first of them:\n{told}"


def test_only_the_percentage_of_a_drawdown_after_a_withdrawal_differs_from_0_1(
    opened: Callable[..., Any], recorded: dict[str, Any]
) -> None:
    memory = opened(recorded["now"])
    asked = [(name, data, answer) for name, data, answer in recorded["answers"] if (name, data) in DRAWDOWNS_AFTER_A_WITHDRAWAL]
    assert len(asked) == len(DRAWDOWNS_AFTER_A_WITHDRAWAL)
    for name, data, answer in asked:
        now = json.loads(json.dumps(ask(memory, name, data)))
        assert float(answer["max_drawdown_pct"]) < float(now["max_drawdown_pct"]) < 4
        assert first_difference(answer, {**now, "max_drawdown_pct": answer["max_drawdown_pct"]}) is None


def test_the_equity_that_0_1_showed_is_now_the_one_without_flows_and_only_the_drawdown_of_the_state_changed_too(
    opened: Callable[..., Any], recorded: dict[str, Any]
) -> None:
    memory, compared = opened(recorded["now"]), 0
    for name, data, answer in recorded["answers"]:
        if (name, data) in EQUITY_WITHOUT_FLOWS:
            now = json.loads(json.dumps(ask(memory, name, data)))
            assert now["equity"] != answer["equity"]
            for was, found in zip((answer, *answer["history"]), (now, *now["history"]), strict=True):
                found["equity"] = found["equity_without_flows"]
                # Money was paid out, so that the same loss is a larger share.
                assert was["drawdown_pct"] < found["drawdown_pct"] < 1.05 * was["drawdown_pct"]
                found.update({name: was[name] for name in FOLLOWS_FROM_DRAWDOWN if name in was})
            assert_same(answer, now, name)
            compared += 1
    assert compared == 2


@pytest.mark.parametrize("at", [{}, {"head": 48}, {"head": 24}], ids=["now", "last row", "earlier row"])
def test_a_recall_without_beliefs_lists_none_that_are_worth_testing(
    opened: Callable[..., Any], recorded: dict[str, Any], at: dict[str, int]
) -> None:
    memory = opened(recorded["now"])
    with_beliefs = ask(memory, "recall_memories", {"agent": "desk", **at})
    without = ask(memory, "recall_memories", {"agent": "desk", "memory_types": ["episodic"], **at})
    assert (len(with_beliefs["worth_testing"]), without["worth_testing"]) == (1, [])


def test_every_operation_that_reads_was_asked_of_the_store_of_0_1(recorded: dict[str, Any]) -> None:
    asked = {name for name, _, _ in recorded["answers"] + recorded["documents"]}
    assert asked >= set(recorded["operations"])
    assert set(reading_operations()) >= set(recorded["operations"]), "an operation of 0.1 is gone"


def test_the_books_of_0_1_verify_with_the_same_digests(opened: Callable[..., Any], recorded: dict[str, Any]) -> None:
    assert_same(recorded["verified"], verified(opened(recorded["now"])), "verify")


def test_the_books_of_0_1_rebuild_to_the_same_digests(opened: Callable[..., Any], recorded: dict[str, Any]) -> None:
    memory = opened(recorded["now"])
    assert_same(recorded["rebuilt"], rebuilt(memory), "rebuild")
    assert_same(recorded["verified"], verified(memory), "verify after rebuild")


def test_an_export_of_the_books_of_0_1_has_the_same_bytes_and_restores(
    opened: Callable[..., Any], recorded: dict[str, Any], tmp_path: Path
) -> None:
    assert_same(recorded["exported"], exported(opened(recorded["now"]), tmp_path / "out"), "export")
    fresh = opened(recorded["now"], empty=True)
    restore_from(fresh, tmp_path / "out" / "all.jsonl")
    assert_same(recorded["verified"], verified(fresh), "verify after restore")


def test_trading_on_in_the_books_of_0_1_gives_the_same_receipts(opened: Callable[..., Any], recorded: dict[str, Any]) -> None:
    memory = opened(recorded["now"])
    for moment, name, data, answer in recorded["receipts"]:
        set_clock(memory, moment)
        assert_same(answer, ask(memory, name, data), f"{name} {json.dumps(data)}")
    assert_same(recorded["verified_after"], verified(memory), "verify after further writes")
    assert_same(recorded["rebuilt_after"], rebuilt(memory), "rebuild after further writes")


def test_documents_beside_the_books_of_0_1_are_found_in_the_same_lines(
    opened: Callable[..., Any], recorded: dict[str, Any], tmp_path: Path
) -> None:
    folder = str(lay_out_papers(tmp_path / "papers"))
    memory = opened(recorded["now"])
    for name, data, answer in recorded["documents"]:
        found = ask(memory, name, with_folder(data, FOLDER, folder))
        if name == "find_similar_reports":
            # Reports are compared in more respects since.
            assert [report["path"] for report in found["reports"]] == [report["path"] for report in answer["reports"]]
        elif answer is not None:
            # Nearly equal passages stand behind others since.
            was, now = (without_figures(in_order_of_paths(each)) for each in (answer, with_folder(found, folder, FOLDER)))
            assert_same(was, now, f"{name} {json.dumps(data)}")


# Tokens are estimated, passages are scored and explained, and rules have their share of a brief in another way since.
NEW_WORDS = frozenset(("tokens", "score", "source", "reason", "budget"))


def in_order_of_paths(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer of a search with its first result in its place and the others by their paths."""
    first, *others = answer.get("results") or [None]
    ordered = [first, *sorted(others, key=lambda result: (result["path"], result["start_line"]))]
    return {**answer, "results": ordered} if answer.get("results") else answer


def without_figures(answer: Any) -> Any:
    """An answer without what is computed or worded in another way since."""
    if isinstance(answer, list):
        return [without_figures(each) for each in answer]
    if isinstance(answer, dict):
        return {name: without_figures(value) for name, value in answer.items() if name not in NEW_WORDS}
    return answer
