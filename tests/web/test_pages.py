"""The pages in a real browser: what a trader sees, clicks and reads is what the engine says."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

import memtape
from memtape.engine import Memory
from tests.web.conftest import Visit, served
from tests.web.floor import HOSTILE_SEEN

SCREENS = Path(__file__).parents[2] / ".screens"
Come = Callable[..., Visit]


def until(page, condition: str) -> None:
    """Wait for a condition, asked from outside: the page's own policy forbids evaluating text inside it."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never became true: {condition}")


def spelled(amount: Decimal | None) -> str:
    assert amount is not None
    return f"{amount:+,.2f}".replace("-", "−")


def keep(visit: Visit, name: str, whole: bool = True) -> None:
    SCREENS.mkdir(exist_ok=True)
    visit.page.screenshot(path=SCREENS / f"{name}.png", full_page=whole)


def test_a_trader_goes_from_the_agents_to_one_trade_and_back(visit: Come, floor: Memory) -> None:
    agent = floor.agent("swing")
    did, total = agent.ledger.performance(), len(agent.ledger.trades())
    here = visit()
    page = here.at("/")
    row = here.text("tbody tr:has-text('swing')")
    assert "simulated" in row and f"n = {did.n_priced}" in row and f"{spelled(did.net_pnl_usd)} USD" in row
    assert did.win_rate is not None and f"{100 * did.win_rate:.1f} %" in row
    assert did.max_drawdown_pct is not None and f"{did.max_drawdown_pct:.2f} %" in row
    keep(here, "agents")

    page.get_by_role("link", name="swing").click()
    here.drawn()
    figures = here.text(".tiles")
    assert f"{spelled(did.net_pnl_usd)} USD" in figures and f"n = {did.n} closed" in figures
    assert f"{did.wins} won, {did.losses} lost" in figures
    assert f"n = {did.n_r} trades with R" in figures
    assert f"{total} of {total} trades" in here.text("#trades [role=status]")
    keep(here, "agent")

    with page.expect_response(lambda got: "symbol=AAPL" in got.url):
        page.get_by_label("Symbol").select_option("AAPL")
    apple = agent.ledger.performance(symbol="AAPL")
    until(page, "document.querySelectorAll('#trades tbody tr').length < 25")
    held = len(agent.ledger.trades(status="open", symbol="AAPL"))
    assert here.text("#trades [role=status]").startswith(f"{apple.n + held} of {total} trades")
    with page.expect_response(lambda got: "outcome=loss" in got.url):
        page.get_by_label("Outcome").select_option("loss")
    page.wait_for_url("**symbol=AAPL**outcome=loss**")
    lost = [t for t in agent.ledger.trades(status="closed", symbol="AAPL") if t.net_pnl_usd is not None and t.net_pnl_usd < 0]
    until(page, f"document.querySelectorAll('#trades tbody tr').length === {len(lost)}")
    assert here.text("#trades [role=status]") == (
        f"{apple.losses} of {total} trades: 0 won, {apple.losses} lost; "
        f"closed net {spelled(sum((t.net_pnl_usd or Decimal(0) for t in lost), Decimal(0)))} USD"
    )
    assert page.locator("#trades tbody tr").count() == len(lost) == apple.losses

    page.get_by_role("link", name="Net PnL (USD)").click()  # largest first, so the smallest loss
    page.wait_for_selector("th[aria-sort=descending]:has-text('Net PnL')")
    least = max(lost, key=lambda t: t.net_pnl_usd or Decimal(0))
    assert spelled(least.net_pnl_usd) in here.text("#trades tbody tr >> nth=0")
    page.locator("#trades tbody a").first.click()
    here.drawn()
    assert page.url.endswith(f"/agents/swing/trades/{least.id}")
    content = here.text("main")
    assert f"Net PnL {spelled(least.net_pnl_usd)} USD" in content and f"{spelled(least.pnl_r)} R" in content
    assert least.entry_reason and least.entry_reason in content
    assert "Every entry and exit is a reported execution." in content
    keep(here, "trade")

    page.go_back()
    here.drawn()
    assert page.get_by_label("Symbol").input_value() == "AAPL" and page.get_by_label("Outcome").input_value() == "loss"
    assert page.locator("#trades tbody tr").count() == len(lost)
    page.go_back()  # undoes the order, by a reload of the page as it was
    page.wait_for_selector("th[aria-sort=descending]:has-text('Entry')")
    here.drawn()


def test_the_track_record_of_an_agent_is_on_a_page_of_its_own(visit: Come, floor: Memory) -> None:
    record = floor.agent("swing").ledger.track_record()
    here = visit()
    page = here.at("/agents/swing")
    here.drawn()
    page.get_by_role("link", name="Performance").click()
    page.wait_for_url("**/agents/swing/performance")
    figures = here.text(".tiles")
    assert record.sharpe.value is not None and f"Sharpe {record.sharpe.value:.2f}".replace("-", "−") in figures
    assert f"n = {record.sharpe.n}, {record.sharpe.clock}" in figures
    months = here.text("section:has(#months-title)")
    assert all(month.month in months for month in record.months)
    assert all(group.name in here.text("section:has(#symbol-title)") for group in record.by_symbol)
    keep(here, "performance")
    here.at("/agents/fresh/performance")
    assert "No closed trades yet." in here.text("main")


def test_the_pages_of_the_table_hold_every_trade_once(visit: Come, floor: Memory) -> None:
    here = visit()
    page = here.at("/agents/swing")
    here.drawn()
    seen: list[str] = []
    number = 1
    while True:
        page.wait_for_selector(f"text=Page {number} of")
        seen += [link.get_attribute("href") or "" for link in page.locator("#trades tbody a").all()]
        following = page.locator(".pages a[rel=next]")
        if not following.count():
            break
        following.click()
        number += 1
    trades = floor.agent("swing").ledger.trades()
    assert number > 1 and sorted(seen) == sorted(f"/agents/swing/trades/{trade.id}" for trade in trades)
    entered = {f"/agents/swing/trades/{trade.id}": trade.entry_at for trade in trades}
    assert [entered[path] for path in seen] == [trade.entry_at for trade in trades]


def test_without_scripts_everything_can_still_be_read_and_filtered(visit: Come, floor: Memory) -> None:
    agent = floor.agent("swing")
    here = visit(scripts=False)
    page = here.at("/")
    page.get_by_role("link", name="swing").click()
    assert page.locator(".chart svg polyline").get_attribute("points")
    page.get_by_label("Symbol").select_option("MSFT")
    page.get_by_label("Outcome").select_option("win")
    page.get_by_role("button", name="Apply").click()
    won = agent.ledger.performance(symbol="MSFT").wins
    assert page.locator("#trades tbody tr").count() == min(won, 25)
    assert here.text("#trades [role=status]").startswith(f"{won} of ")
    page.get_by_role("link", name="R", exact=True).click()
    best = max((t for t in agent.ledger.trades(symbol="MSFT", status="closed")), key=lambda t: t.pnl_r or Decimal(0))
    assert spelled(best.pnl_r) in here.text("#trades tbody tr >> nth=0")
    page.locator("#trades tbody a").first.click()
    assert page.url.endswith(best.id)
    assert "MSFT" in here.text("h1") and page.locator("svg.axis rect").count() == 2
    keep(here, "trade-without-scripts")


def test_hostile_text_is_shown_as_text(visit: Come, floor: Memory) -> None:
    here = visit()
    here.at("/agents/crypto")
    here.drawn()
    assert HOSTILE_SEEN in here.text(".decisions")
    assert "odd[U+202E]one" in here.text("#trades")
    here.page.get_by_label("Strategy").select_option("odd[U+202E]one")
    here.page.wait_for_url("**strategy=**")
    here.page.wait_for_selector("#trades [role=status]:has-text('1 of 3 trades')")
    here.page.locator("#trades tbody a").first.click()
    content = here.text("main")
    for text in (HOSTILE_SEEN, "d1<img src=x>", "mood<i>", '"calm"</dd>', "a<b", "m<odel", "fine <b>"):
        assert text in content
    assert here.page.locator("main img, main script, main b, main i").count() == 0
    assert not any(turn in here.page.content() for turn in "\u202e\u202c")
    keep(here, "hostile")


def test_a_broker_that_differs_from_its_fills_is_reported(visit: Come, floor: Memory) -> None:
    here = visit()
    here.at("/agents/crypto")
    here.drawn()
    found = floor.agent("crypto").ledger.discrepancies()
    assert found and here.text(".notice").startswith(f"{len(found)} discrepancies")
    assert here.page.locator("section:has(#discrepancies) tbody tr").count() == len(found)
    content = here.text("main")
    assert "refused: R3_CAP" in content and "no trade" in content and "Too thin." in content
    assert "1 of the closed trades have no known price" in content
    assert "ETH" in here.text("section:has(#open-title)")
    here.page.get_by_role("link", name="XRP short, entered").click()
    assert "unpriced" in here.text("section:has(#quality-title)")
    assert "No bars of XRP around this trade." in here.text("main")


def test_an_agent_without_observations_is_shown_as_such(visit: Come) -> None:
    here = visit()
    here.at("/")
    assert "nothing yet" in here.text("tbody tr:has-text('fresh')")
    here.at("/agents/fresh")
    content = here.text("main")
    for words in (
        "live",
        "Nothing was observed yet.",
        "No equity yet",
        "Flat: no open position.",
        "No trade yet.",
        "No decision",
    ):
        assert words in content
    assert "n = 0 closed" in content and "Win rate – n = 0" in content


def test_an_empty_memory_shows_the_first_commands(visit: Come, tmp_path: Path) -> None:
    with memtape.open(str(tmp_path / "empty.db")) as memory, served(memory) as address:
        here = visit(at=address)
        here.at("/")
        content = here.text("main")
        for command in ("memtape serve --demo", "memtape import trades.csv --agent main", "memtape connect claude-code --write"):
            assert command in content
        keep(here, "empty")


@pytest.mark.parametrize("path", ["/agents/nobody", "/agents/swing/trades/0123456789abcdef"])
def test_an_unknown_address_is_an_error_page(visit: Come, path: str) -> None:
    here = visit(expected=("status of 404",))
    answer = here.page.goto(here.address + path)
    assert answer is not None and answer.status == 404
    assert "Not found" in here.text("h1")
    here.page.get_by_role("link", name="Go to the list of agents").click()
    assert here.text("h1") == "Agents"


def test_every_page_fits_its_window(visit: Come, floor: Memory) -> None:
    here = visit()
    trade = floor.agent("swing").ledger.trades(status="closed")[0]
    for name, path in (("agents", "/"), ("agent", "/agents/swing"), ("trade", f"/agents/swing/trades/{trade.id}"),
                       ("troubles", "/agents/crypto")):  # fmt: skip
        here.at(path)
        if path != "/":
            here.drawn()
        for width, colours in here.windows():
            assert here.page.evaluate("document.documentElement.scrollWidth") <= width, path
            keep(here, f"{name}-{width}-{colours}")
        here.page.set_viewport_size({"width": 760, "height": 900})
        assert here.page.evaluate("document.documentElement.scrollWidth") <= 760, path


def test_a_change_of_colours_reaches_the_charts(visit: Come) -> None:
    here = visit()
    here.at("/agents/swing")
    here.drawn()
    chart = here.page.locator("[data-chart=equity]")
    light = chart.screenshot()
    here.page.emulate_media(color_scheme="dark")
    here.page.wait_for_timeout(200)
    assert chart.screenshot() != light


def test_the_table_can_be_used_by_keyboard_alone(visit: Come) -> None:
    here = visit()
    page = here.at("/agents/swing")
    here.drawn()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.get_by_label("Side").focus()
    page.keyboard.press("s")  # picks "short"
    page.keyboard.press("Enter")
    page.wait_for_url("**side=short**")
    until(page, "![...document.querySelectorAll('#trades tbody .side')].some((side) => side.textContent === 'long')")
    assert page.evaluate("document.activeElement.name") == "side"  # the filters are not swapped: the focus stays
