"""A journal's patterns and semantic memories -> stated beliefs, of tier 4: text from outside until trades confirm it.

A belief must say when it holds. The conditions are those of the row itself, the situations named in a pattern's metrics,
and the columns for regime and volatility. A row without any is no belief here, and a condition that nobody can look up at
an entry is not left out either: without it the belief would say more than its row does.

>>> row = {"id": "S-1", "proposition": "Pullbacks pay", "alpha": 9.0, "beta": 5.0, "regime": "trending_down",
...        "validity_conditions": '{"symbol": "EURUSD", "session": "london"}'}
>>> belief = belief_of(Cells(), row)
>>> belief["when"], belief["symbol"], belief["alpha"]
({'session': 'london', 'regime': 'trending_down'}, 'EURUSD', 9.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from memtape.brokers.cells import shown_cell
from memtape.brokers.tradememory.cells import LABEL, Cells
from memtape.brokers.tradememory.database import MEND, Row
from memtape.core.memory.beliefs import TESTABLE, StatedBelief, beta_from_pattern
from memtape.core.values import Key, Symbol, read
from memtape.errors import Invalid

EXTERNAL = 4  # the tier of text from outside
AGAIN = 'State it again and say when it holds, like {"regime": "trending_up"}'
_SOME_TIME = datetime(1971, 1, 1, tzinfo=UTC)  # only to see whether it can be stated at all
_LABELS = ("regime", "volatility_regime", "session", "side")
_RENAMED = {"direction": "side", "volatility": "volatility_regime", "context_regime": "regime", "context_session": "session",
            "context_volatility_regime": "volatility_regime"}  # fmt: skip
_BESIDE = frozenset({"strategy", "symbol", "type", "drift_flag", "drift_info", "description"})  # no conditions, though kept there


def read_beliefs(cells: Cells, patterns: Sequence[tuple[int, Row]], memories: Sequence[tuple[int, Row]]) -> list[dict[str, Any]]:
    """Every belief once: what was migrated from a pattern bears its id."""
    measured = {row.get("pattern_id"): row for _, row in patterns}
    formed = {row.get("id") for _, row in memories}
    rows = [("patterns", line, row, row) for line, row in patterns if row.get("pattern_id") not in formed]
    rows += [("semantic_memory", line, row, measured.get(row.get("id"))) for line, row in memories]  # type: ignore[misc]
    found: list[dict[str, Any]] = []
    wider = 0
    for table, line, row, pattern in rows:
        try:
            found.append(belief_of(cells, row, pattern))
            wider += row.get("source") == "remember_trade"
        except Invalid as error:
            cells.refuse(table, line, row, error)
    if wider:
        cells.notes.append(f"{wider} beliefs were counted over every trade of their strategy and symbol, whatever the regime")
    return found


def belief_of(cells: Cells, row: Row, pattern: Row | None = None) -> dict[str, Any]:
    """A row as an agent's memory takes a belief; `pattern` is the pattern that it is, or was migrated from."""
    own = pattern is not row
    id_, sentence, said_in = ("id", "proposition", "validity_conditions") if own else ("pattern_id", "description", "metrics")
    said = cells.object(row, "validity_conditions") if pattern is None else cells.object(pattern, "metrics")
    when = _conditions(cells, said, measured=pattern is not None)
    columns = {name: label for name in ("regime", "volatility_regime") if (label := cells.label(row, name))}
    when = {"all": [when, columns]} if columns and "all" in when else when | columns
    if not when:
        raise Invalid(said_in, "names no situation in which it holds", AGAIN)
    alpha, beta = _counts(cells, row)
    belief = {
        "id": read(Key, cells.key(row, id_), at=id_), "sentence": cells.text(row, sentence), "when": when, "tier": EXTERNAL,
        "strategy": cells.text(row, "strategy", LABEL) or cells.text(said, "strategy", LABEL),
        "symbol": cells.text(row, "symbol", LABEL) or cells.text(said, "symbol", LABEL), "alpha": alpha, "beta": beta,
        "later_only": True,
    }  # fmt: skip
    if belief["sentence"] is None:
        raise Invalid(sentence, "is empty", MEND)
    if belief["symbol"] is not None:
        read(Symbol, belief["symbol"], at="symbol")
    StatedBelief(**belief, stated_at=_SOME_TIME)  # type: ignore[arg-type]
    return belief


def _counts(cells: Cells, row: Row) -> tuple[float, float]:
    """What was counted for and against: the row's own counts, or a pattern's confidence as so many trades."""
    alpha, beta = cells.level(row, "alpha"), cells.level(row, "beta")
    if alpha is not None and beta is not None:
        return alpha, beta
    share, n = cells.level(row, "confidence"), cells.level(row, "sample_size")
    if share is None or n is None or not 0 <= share <= 1 or n < 0:
        raise Invalid("confidence", "and sample_size do not say how often it held", MEND)
    counted = beta_from_pattern(share, int(n))
    return counted.alpha, counted.beta


def _conditions(cells: Cells, said: Row, *, measured: bool) -> dict[str, Any]:
    """The conditions among what a row says of itself; of measurements only the situations that they name."""
    if not measured and {"all", "any", "not", "field"} & set(said):
        return {"all": [dict(said)]}
    when: dict[str, Any] = {}
    for key, value in said.items():
        name = _RENAMED.get(key, key)
        if name in _LABELS and isinstance(value, str):
            if label := cells.label({name: value}, name):
                when[name] = label
        elif not measured and key not in _BESIDE:
            if name not in TESTABLE:
                raise Invalid("validity_conditions", f"{shown_cell(key)} is nothing that is known of a trade's entry", AGAIN)
            when[name] = value
    return when
