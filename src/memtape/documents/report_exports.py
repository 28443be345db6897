"""Exports of other engines, read as they are: backtesting.py, vectorbt, freqtrade and QuantStats.

All were tried on files that these packages wrote (freqtrade: from a list of trades that was made up).

The first two print or save a series of statistics, freqtrade a JSON in an archive (`report_archives`), QuantStats a table or a
page of HTML. An export is recognised by its own words, and only if at least three metrics are found: a page that mentions a win
rate is no report.

>>> text = "Start   2020-01-01\\nReturn [%]   12.5\\nSharpe Ratio   1.1\\nMax. Drawdown [%]  -20.0\\n# Trades  31\\n"
>>> export = read_export("stats.txt", text + "Win Rate [%]   41.5\\n_strategy    SmaCross(n1=10,n2=20)\\n")
>>> export.engine, export.strategy, export.parameters, export.metrics["win_rate"], export.metrics["max_drawdown"]
('backtesting.py', 'SmaCross', {'n1': 10, 'n2': 20}, 0.415, 0.2)
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from html import unescape
from typing import Any

from memtape.core.value_class import dataclass

MIN_METRICS = 3
_NUMBER = re.compile(r"[-−+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
# The names of metrics, in lower case without units and signs.
_NAMES = {
    "win_rate": ("win rate", "winrate", "winning rate"), "win_days": ("win days",),
    "profit_factor": ("profit factor",), "mean_r": ("mean result in r", "mean r", "avg r", "average r"),
    "max_drawdown": ("max drawdown", "largest drawdown", "maximum drawdown", "max drawdown account"),
    "sharpe": ("sharpe", "sharpe ratio", "sharpe ratio daily annualised"),
    "sortino": ("sortino", "sortino ratio", "sortino ratio daily annualised"),
    "calmar": ("calmar", "calmar ratio"), "total_return": ("return", "total return", "cumulative return", "profit total"),
    "cagr": ("cagr", "annualized return"), "volatility": ("volatility", "volatility ann", "annualized volatility"),
    "trades": ("trades", "total trades", "number of trades"), "sqn": ("sqn",),
    "exposure": ("exposure", "exposure time", "time in market"),
    "expectancy": ("expectancy",), "equity_final": ("equity at the end", "equity final", "end value", "final balance"),
    "net_pnl": ("net pnl of closed trades", "profit total abs"),
    "buy_and_hold": ("buy and hold return", "benchmark return", "buying and holding"),
}  # fmt: skip
SHARES = ("win_rate", "win_days", "exposure", "max_drawdown")  # metrics that are never above 1
_BY_NAME = {name: metric for metric, names in _NAMES.items() for name in names}
_STRATEGY = re.compile(r"([A-Za-z_]\w*)(?:\(([^)]*))?")
_HTML_ROW = re.compile(r"<tr[^>]*>\s*<t[dh][^>]*>(.*?)</t[dh]>\s*<t[dh][^>]*>(.*?)</t[dh]>", re.DOTALL | re.IGNORECASE)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LONG_DAY = re.compile(rf"(\d{{1,2}}) ({'|'.join(_MONTHS)}), (\d{{4}})")
_TAG = re.compile(r"<[^>]+>")
# One line each: the title above a table is no part of its first name.
_PAIR = re.compile(
    r"^[^\S\n]*\|?[^\S\n]*([#_A-Za-z&][^|,\t\n]*?)(?:[^\S\n]*[|,\t][^\S\n]*|[^\S\n]{2,})([^|\n]*?)[^\S\n]*\|?[^\S\n]*$",
    re.MULTILINE,
)
_FREQTRADE_SETTINGS = ("timeframe", "stoploss", "trailing_stop", "max_open_trades", "stake_amount", "trading_mode")


@dataclass(frozen=True, slots=True)
class Export:
    """What an export says."""

    engine: str
    strategy: str = ""
    symbols: tuple[str, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    period: tuple[str, ...] = ()
    also: tuple[Export, ...] = ()  # further strategies in the same file


def metric_name(name: str) -> str | None:
    """Returns the one name of a metric that engines call differently; None if it is none that is known.

    >>> [metric_name(name) for name in ("Win Rate [%]", "Max. Drawdown [%]", "max_drawdown", "# Trades", "CAGR﹪", "Omega")]
    ['win_rate', 'max_drawdown', 'max_drawdown', 'trades', 'cagr', None]
    """
    words = re.sub(r"\[[^\]]*\]|[^a-z& ]+", " ", name.lower().replace("_", " ")).replace("&", " and ")
    plain = " ".join(words.split())
    return plain.replace(" ", "_") if plain.replace(" ", "_") in _NAMES else _BY_NAME.get(plain)


def as_share(metric: str, number: float) -> float:
    """Returns a metric in its unit: a drawdown is positive, and a rate above 1 was given in percent, because none is above all.

    >>> as_share("win_rate", 41.5), as_share("max_drawdown", -0.18), as_share("total_return", 4.6)
    (0.415, 0.18, 4.6)
    """
    number = abs(number) if metric == "max_drawdown" else number
    return _shift(number) if metric in SHARES and 1 < number <= 100 else number


def number_in(text: str) -> float | None:
    """Returns the number at the beginning of a text; a percentage as a share.

    >>> [number_in(text) for text in ("41.5 %", "-1,204.50", "–", "1.2 (ann.)")]
    [0.415, -1204.5, None, 1.2]
    """
    if (found := _NUMBER.match(text.strip())) is None:
        return None
    number = float(found[0].replace(",", "").replace("−", "-"))
    return _shift(number) if text.strip()[found.end() :].lstrip()[:1] in ("%", "﹪") else number


def _shift(percent: float) -> float:
    return round(percent / 100, 12)


def read_export(path: str, text: str) -> Export | None:
    """Returns what an export of another engine says; None if it is none."""
    lower = path.lower()
    export: Export | None
    if lower.endswith(".json"):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return None
        export = _from_json(data)
    elif lower.endswith((".html", ".htm")):
        pairs = [(_plain_text(name), _plain_text(value)) for name, value in _HTML_ROW.findall(text)]
        pairs += zip(("Start", "End"), _heading_days(text), strict=False)
        export = _from_pairs(pairs, "QuantStats" if "quantstats" in text.lower() else "")
    else:
        export = _from_pairs([(name, value) for name, value in _PAIR.findall(text)])
    return export if export is not None and export.engine and len(export.metrics) >= MIN_METRICS else None


def _plain_text(cell: str) -> str:
    """Returns what a cell of a table shows.

    >>> _plain_text("<b>Buy &amp; Hold</b> ")
    'Buy & Hold'
    """
    return unescape(_TAG.sub("", cell)).strip()


def _heading_days(html: str) -> list[str]:
    """Returns the days that a page has in its first heading.

    >>> _heading_days("<h1>x <dt> 2 Jan, 2020 - 14 May, 2021</dt></h1>")
    ['2020-01-02', '2021-05-14']
    """
    heading = html.partition("<h1>")[2].partition("</h1>")[0]
    return [f"{year}-{_MONTHS.index(month) + 1:02d}-{int(day):02d}" for day, month, year in _LONG_DAY.findall(heading)]


def _from_json(data: object) -> Export | None:
    if not isinstance(data, dict):
        return None
    if isinstance(data.get("strategy"), dict):
        return _freqtrade(data["strategy"])
    # A series is saved as {name: value}, a table of one column as {column: {name: value}}.
    columns = [value for value in data.values() if isinstance(value, dict)]
    rows = columns[-1] if len(columns) == len(data) and columns else data
    return _from_pairs([(str(name), "" if value is None else str(value)) for name, value in rows.items()])


def _freqtrade(strategies: Mapping[str, Any]) -> Export | None:
    """Returns the strategies of a freqtrade result: one file has all that were tested together (`--strategy-list`)."""
    tested = [
        _freqtrade_strategy(name, result)
        for name, result in strategies.items()
        if isinstance(result, dict) and "total_trades" in result
    ]
    return replace(tested[0], also=tuple(tested[1:])) if tested else None


def _freqtrade_strategy(name: str, result: Mapping[str, Any]) -> Export:
    metrics = dict(_metrics((key, str(value)) for key, value in result.items() if isinstance(value, int | float)))
    ends = tuple(_day(result.get(key)) for key in ("backtest_start", "backtest_end"))
    parameters = {key: result[key] for key in _FREQTRADE_SETTINGS if isinstance(result.get(key), str | int | float)}
    pairs = result.get("pairlist")
    return Export("freqtrade", name, tuple(map(str, pairs)) if isinstance(pairs, list) else (), metrics, parameters, ends)


def _day(value: object) -> str:
    return datetime.fromtimestamp(value / 1000, UTC).date().isoformat() if isinstance(value, int | float) else str(value)[:10]


def _from_pairs(pairs: list[tuple[str, str]], engine: str = "") -> Export | None:
    names = {name.strip() for name, _ in pairs}
    engine = engine or _engine(names)
    # Later rows are variants of a metric, like the Sortino ratio over the root of two.
    metrics = dict(reversed(list(_metrics(iter(pairs)))))
    stated = {name.strip().lower(): value.strip(" \"'") for name, value in pairs}
    strategy, parameters = "", {}
    stated_strategy = stated.get("_strategy", stated.get("strategy", ""))
    if found := _STRATEGY.match(stated_strategy):
        strategy = found[1]
        # A printed series cuts a long value: "SmaCross(n1=10,n...". What the cut leaves of its last argument may be wrong.
        complete = found[2] or ""
        if not stated_strategy.endswith(")"):
            complete = complete.rpartition(",")[0]
        parameters = dict(_arguments(complete))
    start = next((stated[name] for name in ("start", "start period") if name in stated), "")
    end = next((stated[name] for name in ("end", "end period") if name in stated), "")
    symbol = next((stated[name] for name in ("symbol", "pair", "ticker") if name in stated), "")
    return Export(engine, strategy, (symbol,) if symbol else (), metrics, parameters, (_as_day(start), _as_day(end)))


def _as_day(text: str) -> str:
    """Returns the day of a time as an export writes it: text, or milliseconds since 1970."""
    return _day(int(text)) if text.isdecimal() and len(text) >= 12 else text[:10]


def _engine(names: set[str]) -> str:
    """Returns whose words these are.

    >>> [_engine(names) for names in ({"_strategy"}, {"Total Closed Trades", "Start Value"}, {"Gain/Pain Ratio"}, {"Win rate"})]
    ['backtesting.py', 'vectorbt', 'QuantStats', '']
    """
    if "_strategy" in names or {"# Trades", "Buy & Hold Return [%]"} <= names:
        return "backtesting.py"
    if {"Total Closed Trades", "Start Value"} <= names:
        return "vectorbt"
    return "QuantStats" if names & {"Gain/Pain Ratio", "Serenity Index", "Prob. Sharpe Ratio", "Payoff Ratio"} else ""


def _metrics(pairs: Iterator[tuple[str, str]]) -> Iterator[tuple[str, float]]:
    for name, value in pairs:
        metric, number = metric_name(name), number_in(value)
        if metric is None or number is None or not math.isfinite(number):
            continue
        if "[%]" in name:
            number = _shift(number)
        yield metric, abs(number) if metric == "max_drawdown" else number


def _arguments(text: str) -> Iterator[tuple[str, Any]]:
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals:
            number = number_in(value)
            yield name.strip(), value.strip() if number is None else int(number) if number == int(number) else number
