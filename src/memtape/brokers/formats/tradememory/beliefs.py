"""A journal's patterns and semantic memories -> stated beliefs, of tier 4: external text until trades confirm it.

A belief must state when it holds. The conditions are those of the row itself, the situations in a pattern's metrics, and the
columns for regime and volatility. A row without a condition is refused. So is a row with a condition that cannot be tested at
an entry: without that condition the belief would claim more than the row does.

>>> row = {"id": "S-1", "proposition": "Pullbacks pay", "alpha": 9.0, "beta": 5.0, "regime": "trending_down",
...        "validity_conditions": '{"symbol": "EURUSD", "session": "london"}'}
>>> belief = belief_from_row(JournalCells(), row)
>>> belief["when"], belief["symbol"], belief["alpha"]
({'session': 'london', 'regime': 'trending_down'}, 'EURUSD', 9.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from memtape.brokers.cells import shown_cell
from memtape.brokers.formats.tradememory.cells import MAX_LABEL_CHARS, JournalCells
from memtape.brokers.formats.tradememory.database import FIX_ROW, JournalRow
from memtape.core.memory.beliefs import TESTABLE, StatedBelief, beta_from_pattern
from memtape.core.values import Key, Symbol, read
from memtape.errors import Invalid

EXTERNAL_TIER = 4
FIX_BELIEF = 'State it with the conditions in which it holds, like {"regime": "trending_up"}'
_ANY_TIME = datetime(1971, 1, 1, tzinfo=UTC)  # for the check alone
_LABEL_FIELDS = ("regime", "volatility_regime", "session", "side")
_FIELD_NAMES = {"direction": "side", "volatility": "volatility_regime", "context_regime": "regime", "context_session": "session",
            "context_volatility_regime": "volatility_regime"}  # fmt: skip
_NOT_CONDITIONS = frozenset({"strategy", "symbol", "type", "drift_flag", "drift_info", "description"})  # stored beside conditions


def read_beliefs(
    cells: JournalCells, patterns: Sequence[tuple[int, JournalRow]], memories: Sequence[tuple[int, JournalRow]]
) -> list[dict[str, Any]]:
    """Returns every belief once: a belief that was migrated from a pattern has its id."""
    measured = {row.get("pattern_id"): row for _, row in patterns}
    formed = {row.get("id") for _, row in memories}
    rows = [("patterns", line, row, row) for line, row in patterns if row.get("pattern_id") not in formed]
    rows += [("semantic_memory", line, row, measured.get(row.get("id"))) for line, row in memories]  # type: ignore[misc]
    found: list[dict[str, Any]] = []
    wider = 0
    for table, line, row, pattern in rows:
        try:
            found.append(belief_from_row(cells, row, pattern))
            wider += row.get("source") == "remember_trade"
        except Invalid as error:
            cells.refuse(table, line, row, error)
    if wider:
        cells.notes.append(f"{wider} beliefs were counted over all trades of their strategy and symbol, in any regime")
    return found


def belief_from_row(cells: JournalCells, row: JournalRow, pattern: JournalRow | None = None) -> dict[str, Any]:
    """Returns a row as an agent states a belief. `pattern` is the row itself if it is a pattern, or the pattern it came from."""
    own = pattern is not row
    id_, sentence, conditions_column = (
        ("id", "proposition", "validity_conditions") if own else ("pattern_id", "description", "metrics")
    )
    source = cells.object(row, "validity_conditions") if pattern is None else cells.object(pattern, "metrics")
    when = _conditions(cells, source, measured=pattern is not None)
    columns = {name: label for name in ("regime", "volatility_regime") if (label := cells.label(row, name))}
    when = {"all": [when, columns]} if columns and "all" in when else when | columns
    if not when:
        raise Invalid(conditions_column, "names no situation", FIX_BELIEF)
    alpha, beta = _beta_counts(cells, row)
    belief = {
        "id": read(Key, cells.key(row, id_), at=id_), "sentence": cells.text(row, sentence), "when": when, "tier": EXTERNAL_TIER,
        "strategy": cells.text(row, "strategy", MAX_LABEL_CHARS) or cells.text(source, "strategy", MAX_LABEL_CHARS),
        "symbol": cells.text(row, "symbol", MAX_LABEL_CHARS) or cells.text(source, "symbol", MAX_LABEL_CHARS),
        "alpha": alpha, "beta": beta, "later_only": True,
    }  # fmt: skip
    if belief["sentence"] is None:
        raise Invalid(sentence, "is empty", FIX_ROW)
    if belief["symbol"] is not None:
        read(Symbol, belief["symbol"], at="symbol")
    StatedBelief(**belief, stated_at=_ANY_TIME)  # type: ignore[arg-type]
    return belief


def _beta_counts(cells: JournalCells, row: JournalRow) -> tuple[float, float]:
    """Returns the counts for and against: the row's own, or a pattern's confidence times its sample size."""
    alpha, beta = cells.level(row, "alpha"), cells.level(row, "beta")
    if alpha is not None and beta is not None:
        return alpha, beta
    share, n = cells.level(row, "confidence"), cells.level(row, "sample_size")
    if share is None or n is None or not 0 <= share <= 1 or n < 0:
        raise Invalid("confidence", "and sample_size do not give a count", FIX_ROW)
    counted = beta_from_pattern(share, int(n))
    return counted.alpha, counted.beta


def _conditions(cells: JournalCells, source: JournalRow, *, measured: bool) -> dict[str, Any]:
    """Returns the conditions in a row. Of measurements it uses only the situations that they name."""
    if not measured and {"all", "any", "not", "field"} & set(source):
        return {"all": [dict(source)]}
    when: dict[str, Any] = {}
    for key, value in source.items():
        name = _FIELD_NAMES.get(key, key)
        if name in _LABEL_FIELDS and isinstance(value, str):
            if label := cells.label({name: value}, name):
                when[name] = label
        elif not measured and key not in _NOT_CONDITIONS:
            if name not in TESTABLE:
                raise Invalid("validity_conditions", f"{shown_cell(key)} is not known at a trade's entry", FIX_BELIEF)
            when[name] = value
    return when
