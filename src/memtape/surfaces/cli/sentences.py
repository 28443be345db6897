"""The plain sentence with which some commands end: what the answer comes down to."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from math import prod
from typing import Any

ENOUGH_TRADES = 10  # effective sample from which an answer also suggests a size


def concluding_sentence(operation: str, done: Mapping[str, Any]) -> str:
    """The last sentence of a command that calls an operation, or "" if it has none."""
    if operation == "get_trades":
        return next_page_sentence(done, sys.argv[1:])
    sentence = _SENTENCES.get(operation)
    return sentence(done) if sentence is not None else ""


def next_page_sentence(done: Mapping[str, Any], typed: Sequence[str]) -> str:
    """How to see the next page of a list: the words that were typed, with its cursor.

    >>> next_page_sentence({"next_cursor": "17-ab"}, ["trades", "--side", "long", "--cursor", "18-cd"])
    'More: memtape trades --side long --cursor 17-ab'
    >>> next_page_sentence({"next_cursor": None}, ["trades"])
    ''
    """
    cursor = done.get("next_cursor")
    if not cursor:
        return ""
    words = [word for before, word in zip(("", *typed), typed, strict=False) if "--cursor" not in (before, word)]
    return f"More: memtape {shlex.join(word for word in words if not word.startswith('--cursor='))} --cursor {cursor}"


def check_sentence(done: Mapping[str, Any]) -> str:
    """What a check of an order came to, and the first reason for it.

    >>> state, evidence = {"weighs": "caution", "text": "9 trades in a row without a win"}, {"weighs": "clear", "text": "..."}
    >>> check_sentence({"verdict": "caution", "reasons": [state, state, evidence]})
    'In short: caution: 9 trades in a row without a win; 1 more reason above.'
    >>> check_sentence({"verdict": "clear", "reasons": [evidence]})
    'In short: clear: nothing that memory knows speaks against this order.'
    """
    if done["verdict"] == "clear":
        return "In short: clear: nothing that memory knows speaks against this order."
    reasons = [reason["text"].rstrip(".") for reason in done["reasons"] if reason["weighs"] == done["verdict"]]
    more = len(reasons) - 1
    others = f"; {more} more reason{'' if more == 1 else 's'} above" if more else ""
    return f"In short: {done['verdict']}: {reasons[0]}{others}."


def trade_sentence(done: Mapping[str, Any]) -> str:
    """How the net result and the R of a trade come about.

    >>> row = {"status": "closed", "side": "short", "qty_entered": "10", "entry_price": "3218.08", "exit_price": "3224.66",
    ...        "realized_pnl_usd": "-65.80", "fees_usd": "0.7", "funding_usd": "0", "net_pnl_usd": "-66.5", "currency": "USD",
    ...        "stop_price": "3226.08", "initial_risk_usd": "80", "r_source": "stop", "pnl_r": -0.83125}
    >>> print(trade_sentence({"trade": row}))
    In short: short 10 from 3218.08 to 3224.66 is -65.80 USD; less fees of 0.7 it is -66.5 net, and of the 80 risked -0.83R.
    >>> print(trade_sentence({"trade": row | {"pnl_r": None, "initial_risk_usd": None, "funding_usd": "-1.2"}}))
    In short: short 10 from 3218.08 to 3224.66 is -65.80 USD; less fees of 0.7, with funding of -1.2 it is -66.5 net. It has no R, because no risk at entry is known.
    >>> trade_sentence({"trade": row | {"status": "open"}})
    ''
    """  # noqa: E501
    trade = done["trade"]
    gross, net = trade.get("realized_pnl_usd"), trade.get("net_pnl_usd")
    if trade["status"] != "closed" or None in (gross, net, trade.get("entry_price"), trade.get("exit_price")):
        return ""
    size = f" {trade['qty_entered']}" if trade.get("qty_entered") else ""
    moved = f"{trade['side']}{size} from {trade['entry_price']} to {trade['exit_price']} is {gross} {trade['currency']}"
    costs = [
        f"{words} of {trade[name]}"
        for name, words in (("fees_usd", "less fees"), ("funding_usd", "with funding"))
        if trade.get(name) and Decimal(trade[name])
    ]
    result = f"{', '.join(costs) or 'without costs'} it is {net} net"
    risk, r = trade.get("initial_risk_usd"), trade.get("pnl_r")
    if r is None:
        return f"In short: {moved}; {result}. It has no R, because no risk at entry is known."
    of = f"of the {risk} risked" if risk else "as its source states it,"
    return f"In short: {moved}; {result}, and {of} {float(r):+.2f}R."


# The factors of a score, as people call them.
_FACTORS = {"Q": "outcome", "Sim": "similarity", "Rec": "recency", "Conf": "confidence", "Aff": "affect"}


def score_sentence(done: Mapping[str, Any]) -> str:
    """Why a memory has its score: the factors whose product it is.

    >>> ours = [{"factor": name, "form": "ours", "value": 0.5} for name in ("Q", "Sim", "Rec", "Conf", "Aff")]
    >>> print(score_sentence({"forms": ours}))
    In short: score 0.031 = outcome 0.50 x similarity 0.50 x recency 0.50 x confidence 0.50 x affect 0.50 ("ours" above).
    """
    ours = {form["factor"]: form["value"] for form in done["forms"] if form["form"] == "ours" and form["value"] is not None}
    if not _FACTORS.keys() <= ours.keys():
        return "In short: this memory has no score, because it has no outcome in R."
    product = " x ".join(f"{word} {ours[name]:.2f}" for name, word in _FACTORS.items())
    return f'In short: score {prod(ours[name] for name in _FACTORS):.2g} = {product} ("ours" above).'


def store_option(db: str | None) -> str:
    """What a suggested command needs so that it reaches the store of this one.

    >>> store_option(None), store_option("my desk.db")
    ('', " --db 'my desk.db'")
    """
    return f" --db {shlex.quote(db)}" if db else ""


def simulation_sentence(found: Mapping[str, Any], agent: str, db: str | None = None) -> str:
    """What a simulation came to, and where to look.

    >>> simulation_sentence({"trades": 3, "net_pnl": "-12.50", "starting_equity": "10000"}, "sim")
    'In short: 3 simulated trades lost 12.50 on 10000, after costs. See them: memtape trades --agent sim'
    """
    n, net = found["trades"], Decimal(found["net_pnl"])
    did = f"{'lost' if net < 0 else 'made'} {abs(net):.2f}"
    made = f"{n} simulated trade{'' if n == 1 else 's'} {did} on {found['starting_equity']}, after costs"
    return f"In short: {made}. See them: memtape trades --agent {agent}{store_option(db)}"


def recall_sentence(done: Mapping[str, Any]) -> str:
    """What memory says about a situation.

    >>> evidence = {"n_trades": 47, "n_eff": 23.4, "win_rate": 0.2477, "mean_r": -0.265, "mean_r_interval": [-0.75, 0.22]}
    >>> print(recall_sentence({"n": 159, "unit": "R", "evidence": evidence, "warnings": [{}, {}]}))
    In short: of 47 trades, similar ones counting more, 25 % won, with -0.27R on average, which luck can explain; 2 warnings.
    >>> evidence = {"n_trades": 1, "n_eff": 1.0, "win_rate": 1.0, "mean_r": 1.994}
    >>> print(recall_sentence({"n": 1, "unit": "R", "evidence": evidence, "warnings": []}))
    In short: 1 trade made +1.99R, too few to conclude from (effective sample 1.0).
    >>> recall_sentence({"n": 0, "unit": "R", "evidence": {"n_trades": 0}, "warnings": []})
    'In short: there are no memories yet.'
    """
    from memtape.core.brief.number_format import signed_figure

    evidence, warnings = done.get("evidence") or {}, done.get("warnings") or []
    if not done.get("n"):
        return "In short: there are no memories yet."
    n, rate, mean = evidence.get("n_trades") or 0, evidence.get("win_rate"), evidence.get("mean_r")
    if not n or rate is None or mean is None:
        return f"In short: none of the {done['n']} memories has an outcome for this situation.{_warned(len(warnings))}"
    unit = "R" if done.get("unit") == "R" else f" {done.get('unit')}"
    made = f"of {n:,} trades, similar ones counting more, {rate * 100:.0f} % won, with {signed_figure(mean)}{unit} on average"
    if n == 1:
        made = f"1 trade made {signed_figure(mean)}{unit}"
    return f"In short: {made}{_doubt(evidence)}{_warned(len(warnings), '; ')}."


def _doubt(evidence: Mapping[str, Any]) -> str:
    """Why not to trust a mean: too few trades, or an interval around zero."""
    n_eff = evidence.get("n_eff")
    if n_eff is not None and n_eff < ENOUGH_TRADES:
        return f", too few to conclude from (effective sample {n_eff:.1f})"
    low, high = evidence.get("mean_r_interval") or (None, None)
    return ", which luck can explain" if low is not None and high is not None and low <= 0 <= high else ""


def _warned(n: int, start: str = " ") -> str:
    return f"{start}{n} warning{'' if n == 1 else 's'}{'.' if start == ' ' else ''}" if n else ""


def lessons_sentence(done: Mapping[str, Any]) -> str:
    """That a model chose no lesson: an empty list alone would leave open whether something failed.

    >>> lessons_sentence({"note": {"lessons": [], "chosen_by": "anthropic/claude-haiku-4-5"}})
    'This note has no lesson: anthropic/claude-haiku-4-5 found no candidate worth showing.'
    >>> lessons_sentence({"note": None}), lessons_sentence({"note": {"lessons": [{}], "chosen_by": "memtape"}})
    ('', '')
    """
    note = done.get("note")
    if not note or note.get("lessons") or not note.get("chosen_by") or note["chosen_by"].startswith("memtape"):
        return ""
    return f"This note has no lesson: {note['chosen_by']} found no candidate worth showing."


_SENTENCES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "reflect_now": lessons_sentence, "get_lessons": lessons_sentence, "recall_memories": recall_sentence,
    "pre_trade_check": check_sentence, "explain_memory": score_sentence, "get_trade": trade_sentence,
    "get_trade_reflection": trade_sentence,
}  # fmt: skip


def verify_sentence(found: Mapping[str, Any]) -> str:
    """What a verification found.

    >>> verify_sentence({"ok": True, "log_rows": 3821, "heads": [{}, {}], "problems": [], "needs_rebuild": []})
    'Nothing was altered: all 3,821 rows of the log and every table made from them agree, in 2 streams.'
    """
    if not found["ok"]:
        n, first = len(found["problems"]), found["problems"][0]
        others = f" and {n - 1} more" if n > 1 else ""
        where = f" of {first['stream']}" if first["stream"] else ""
        return f"The store does not agree with its log: {first['table']} {first['row']}{where}{others}."
    if found["needs_rebuild"]:
        return "Nothing was altered, but these trades were computed by older rules. Make a backup, then run: memtape rebuild"
    n = len(found["heads"])
    streams = f"{n} stream{'' if n == 1 else 's'}"
    return f"Nothing was altered: all {found['log_rows']:,} rows of the log and every table made from them agree, in {streams}."


def rebuild_sentence(found: Mapping[str, Any]) -> str:
    """What a rebuild did.

    >>> rebuild_sentence({"ok": True, "log_rows": 5, "problems": []})
    'Every table was made again from the 5 rows of the log.'
    """
    if not found["ok"]:
        return verify_sentence(found)
    return f"Every table was made again from the {found['log_rows']:,} row{'' if found['log_rows'] == 1 else 's'} of the log."


def restore_sentence(found: Mapping[str, Any]) -> str:
    """What a restore did.

    >>> restore_sentence({"ok": True, "log_rows": 1, "db": "sqlite:////data/desk.db"})
    'The store is whole: its 1 row of the log and every table made from them agree.'
    """
    rows = f"{found['log_rows']:,} row{'' if found['log_rows'] == 1 else 's'}"
    return f"The store is whole: its {rows} of the log and every table made from them agree."


def doctor_sentence(found: Mapping[str, Any]) -> str:
    """What the doctor says in the end.

    >>> doctor_sentence({"ok": True, "checks": [{}, {}], "problems": [], "notes": ["no agents yet"]})
    'All is well: 2 checks passed; 1 note above.'
    """
    if not found["ok"]:
        n = len(found["problems"])
        return f"{n} of {len(found['checks'])} checks failed: see {'problem' if n == 1 else 'problems'} above."
    notes = len(found["notes"])
    noted = f"; {notes} note{'' if notes == 1 else 's'} above" if notes else ""
    return f"All is well: {len(found['checks'])} checks passed{noted}."
