"""The pages as answers: their headers, their words, and what the addresses mean. No browser needed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import memtape
from memtape.engine import Memory
from memtape.surfaces.http import build_app
from memtape.surfaces.web import STATIC, add_pages
from memtape.surfaces.web.trades import TableQuery

WEB = STATIC.parent
ADDRESSES = ("src", "href", "action", "hx-get", "hx-push-url", "data-url")


class Reader(HTMLParser):
    """Reads a page as a browser does; notes scripts and styles written into it, and every address."""

    def __init__(self) -> None:
        super().__init__()
        self.inline: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in names):
            self.inline.append(tag)
        self.inline += [f"{tag} {name}" for name in names if name == "style" or name.startswith(("on", "hx-on"))]
        self.addresses += [names[name] or "" for name in ADDRESSES if name in names and names[name] != "true"]


def brings_nothing_of_its_own(client: TestClient, path: str) -> None:
    """A page has no script and no style written into it, and leads nowhere but to us."""
    answer, reader = client.get(path), Reader()
    reader.feed(answer.text)
    assert answer.status_code == 200 and reader.inline == [], path
    assert all(to.startswith(("/", "#")) for to in reader.addresses), path


def client_of(memory: Memory) -> TestClient:
    return TestClient(build_app(memory, mcp=False, web=partial(add_pages, memory=memory)), base_url="http://127.0.0.1")


@pytest.fixture
def client(floor: Memory) -> Iterator[TestClient]:
    with client_of(floor) as client:
        yield client


def paths(memory: Memory) -> list[str]:
    trades = [f"/agents/{name}/trades/{t.id}" for name in ("swing", "crypto") for t in memory.agent(name).ledger.trades()[:4]]
    return ["/", "/agents/swing", "/agents/crypto", "/agents/fresh", "/agents/nobody", *trades]


def test_a_page_allows_only_what_it_brings(client: TestClient, floor: Memory) -> None:
    for path in paths(floor):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"].split("; ")
        assert policy[:3] == ["default-src 'none'", "script-src 'self'", "style-src 'self'"]
        assert {"base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'"} < set(policy)
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        reader = Reader()
        reader.feed(answer.text)
        assert reader.inline == [], path
        assert all(to.startswith(("/", "#")) or to == "https://www.tradingview.com/" for to in reader.addresses), path


def test_the_files_of_others_are_the_ones_that_are_listed() -> None:
    listed = (WEB / "static/VENDORED.md").read_text(encoding="utf-8")
    scripts = sorted((WEB / "static/vendor").glob("*.js"))
    assert len(scripts) == 2
    for script in scripts:
        assert f"| vendor/{script.name} |" in listed
        assert hashlib.sha256(script.read_bytes()).hexdigest() in listed
    used = "".join(template.read_text(encoding="utf-8") for template in WEB.glob("templates/*.html"))
    assert all(f"/static/vendor/{script.name}" in used for script in scripts)
    assert all((WEB / "static/vendor" / f"{name}.LICENSE").is_file() for name in ("htmx", "lightweight-charts", "fancy-canvas"))


def test_files_are_kept_and_asked_after(client: TestClient) -> None:
    first = client.get("/static/app.css")
    assert first.status_code == 200 and first.headers["cache-control"] == "no-cache"
    assert client.get("/static/app.css", headers={"if-none-match": first.headers["etag"]}).status_code == 304
    assert client.get("/static/../pages.py").status_code == 404
    assert client.get("/static/%2e%2e/pages.py").status_code == 404


@pytest.mark.parametrize(
    "path",
    ["/agents/nobody", "/agents/Not%20A%20Name", "/agents/swing/trades/nothing", "/agents/nobody/trades/x", "/agents/swing/else",
     "/agents/swing/trades/" + "x" * 500, "/agents/%3Cscript%3E"],
)  # fmt: skip
def test_what_is_not_there_is_a_page_that_says_so(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404 and "<h1>Not found</h1>" in answer.text
    assert "There is no" in answer.text or "there is no" in answer.text
    assert "<script>" not in answer.text


def test_the_data_of_a_chart_that_is_not_there_is_a_problem(client: TestClient) -> None:
    for path in ("/agents/nobody/equity.json", "/agents/swing/trades/nothing/bars.json"):
        answer = client.get(path)
        assert answer.status_code == 404 and answer.headers["content-type"] == "application/problem+json"


def test_only_htmx_gets_the_table_alone(client: TestClient) -> None:
    whole = client.get("/agents/swing?side=long")
    part = client.get("/agents/swing?side=long", headers={"HX-Request": "true", "HX-Request-Type": "partial"})
    assert whole.headers["vary"] == part.headers["vary"] == "HX-Request-Type"
    assert part.text.lstrip().startswith('<div id="trades"') and "<html" not in part.text
    assert part.text.strip() in whole.text
    restored = client.get("/agents/swing?side=long", headers={"HX-Request": "true", "HX-Request-Type": "full"})
    assert restored.text == whole.text


@pytest.mark.parametrize(
    "query",
    ["side=sideways&status=x&outcome=?&sort=;drop&page=-1", "page=99999", "page=" + "9" * 400, "symbol=%22%3E%3Cb%3E", "sort=-"],
)
def test_nonsense_in_an_address_does_no_harm(client: TestClient, query: str) -> None:
    answer = client.get(f"/agents/swing?{query}")
    assert answer.status_code == 200 and "<b>" not in answer.text


def test_the_curve_is_the_engines(client: TestClient, floor: Memory) -> None:
    curve = floor.agent("swing").ledger.equity()
    data = client.get("/agents/swing/equity.json").json()
    assert data["n"] == len(curve.points) == len(data["points"]) and data["currency"] == "USD"
    (t, nav), last = curve.points[-1], data["points"][-1]
    assert last == {"time": int(t.timestamp()), "value": pytest.approx(float(nav))}
    times = [point["time"] for point in data["points"]]
    assert times == sorted(set(times))
    assert client.get("/agents/fresh/equity.json").json()["points"] == []


def test_the_bars_around_a_trade_hold_its_entry_and_its_exit(client: TestClient, floor: Memory) -> None:
    trade = floor.agent("swing").ledger.trades(status="closed")[3]
    data = client.get(f"/agents/swing/trades/{trade.id}/bars.json").json()
    assert data["frame_seconds"] == 86400 and data["bars_per_candle"] == 1
    candles = {candle["time"]: candle for candle in data["candles"]}
    assert list(candles) == sorted(candles)
    assert [mark["kind"] for mark in data["markers"]] == ["entry", "exit"]
    assert trade.exit_at is not None
    for mark, at in zip(data["markers"], (trade.entry_at, trade.exit_at), strict=True):
        assert mark["time"] <= at.timestamp() < mark["time"] + 86400
        assert candles[mark["time"]]["low"] * 0.999 <= mark["price"] <= candles[mark["time"]]["high"] * 1.001
    assert {line["kind"] for line in data["lines"]} == {"entry", "exit", "stop", "target"}


def test_money_of_different_kinds_is_never_added_up(client: TestClient, floor: Memory) -> None:
    foot = client.get("/").text.partition("<tfoot>")[2]
    for words in ("All simulated", "All paper", "All live"):
        assert foot.count(words) == 1
    swing = floor.agent("swing").ledger.performance().net_pnl_usd
    assert f"{swing:+,.2f}".replace("-", "−") in foot


def test_a_new_trade_is_on_the_list_at_once(tmp_path: Path) -> None:
    with memtape.open(str(tmp_path / "new.db")) as memory, client_of(memory) as client:
        memory.create_skill("trend")
        memory.create_agent("desk", skill="trend", mode="sim")
        assert "nothing yet" in client.get("/").text
        trade: dict[str, Any] = {
            "trade_id": "t1", "symbol": "BTC", "side": "long", "entry_at": "2026-06-04T08:00:00Z", "qty": "1",
            "exit_at": "2026-06-04T09:00:00Z", "entry_price": "65200", "exit_price": "66434.5678", "fees": "10",
        }  # fmt: skip
        memory.agent("desk").observe(trade, kind="trade")
        content = client.get("/").text
        assert "+1,224.57" in content and 'title="1224.5678 USD"' in content and "2026-06-04 09:00 UTC" in content
        page = client.get(f"/agents/desk/trades/{memory.agent('desk').ledger.trades()[0].id}").text
        assert "The source reported this trade as a whole, without fills." in page and "reported as closed by its source" in page


def test_an_address_says_only_what_differs_from_the_plain_view() -> None:
    query = TableQuery.read({"symbol": "BTC/USDT", "page": "3"})
    assert query.address("/agents/desk") == "/agents/desk?symbol=BTC%2FUSDT"
    assert query.address("/agents/desk", page=4) == "/agents/desk?symbol=BTC%2FUSDT&page=4"
    assert TableQuery().address("/agents/desk") == "/agents/desk"
