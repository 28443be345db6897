"""Imports a file of trades, fills, decisions, equity marks or positions into an agent's memory. Without `commit` it is a preview.

The command line, HTTP and Python import through `import_content`.

The preview reads everything and writes nothing. It shows the meaning of columns, what is new, what cannot be read, and sums to
compare with the broker's own. A commit writes all readable rows in one batch, or nothing. A file may contain beliefs and plans
too (`ImportResult.statements`), like a journal of another memory: they are stated after its trades.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from memtape.brokers.account import DEFAULT_CURRENCY
from memtape.brokers.files import ImportFile, clean_name, unpack_file
from memtape.brokers.formats import read_file
from memtape.brokers.importer import FoundOutcome, FoundRow, ImportOptions, ImportProblem, ImportResult, Progress
from memtape.brokers.kinds import kinds_of
from memtape.brokers.record_totals import record_counts
from memtape.core.codec import decimal_text
from memtape.core.fills import Fill
from memtape.core.observed import ClosedTrade, Observed
from memtape.core.skills import DEFAULT_AGENT
from memtape.core.values import Quantity, Slug, read
from memtape.engine.write.arrivals import key_of
from memtape.errors import Invalid, Unknown
from memtape.surfaces.import_answers import file_sums, mapping_json, new_agent_note
from memtape.surfaces.import_checks import (
    drop_changed,
    drop_changed_outcomes,
    drop_future,
    drop_stale,
    listed_problems,
    refuse_bad_rows,
    refuse_second_reading,
    take_owners_names,
)
from memtape.surfaces.journal_imports import import_journal

if TYPE_CHECKING:
    from memtape.engine import AgentMemory, Memory


def file_of_content(name: str, content: str, *, base64: bool = False) -> ImportFile:
    """Returns a file that came as text, or as bytes in base64."""
    if not base64:
        return unpack_file(clean_name(name) or "file", content.encode(errors="replace"))
    try:
        return unpack_file(clean_name(name) or "file", b64decode(content, validate=True))
    except ValueError:
        raise Invalid("content", "is not base64", "Encode the bytes of the file, or give its text without base64") from None


def import_content(
    memory: Memory, file: ImportFile, *, agent: str | None = None, format: str | None = None, kind: str | None = None,
    mapping: Mapping[str, str] | None = None, commit: bool = False, zone: str | None = None, symbol: str | None = None,
    skip_bad: bool = False, where: Mapping[str, str] | None = None, on_progress: Progress | None = None,
    currency: str | None = None, starting_equity: str | None = None, guess: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Read a file; with `commit`, import it. Returns what `memtape import --json` prints.

    `kind` is what the file holds, if its columns do not show it. `currency` is that of the file's amounts and `starting_equity`
    what the account started with; both become settings of an agent that the import creates. With `guess`, the mapping of an
    earlier import is not used.
    """
    handle = _existing(memory, agent)
    options = ImportOptions(
        mapping=dict(mapping or {}), zone=zone, symbol=symbol, where=dict(where or {}), on_progress=on_progress, kind=kind,
        currency=currency, account_currency=handle.agent.settings.currency if handle else None,
        saved=lambda header: None if guess else _saved_mapping(handle, header, kind),
    )  # fmt: skip
    name, result = read_file(file, options, format)
    settings = _account_settings(handle, result, currency, starting_equity)
    if result.statements is not None:
        stated = _stated_settings(settings)
        return import_journal(memory, handle, agent, file, name, result, result.statements, stated, commit=commit)
    _check_found(memory, handle, result, settings)
    outcomes = [each.outcome for each in result.found if each.outcome is not None]
    new, duplicates = _count_new(handle, result.found, outcomes)
    if handle is not None and new and not duplicates:
        result.problems[:0] = refuse_second_reading(handle, file.digest, result.mapping)
    totals, absurd = file_sums(result)
    answer = {
        # In the first line, because a person who commits may read no other.
        **({"warning": f"The totals cannot be right: {'; '.join(absurd)}. Check the columns below"} if absurd else {}),
        "format": name, "kind": result.kind, "rows": result.rows, "counts": record_counts(result.found),
        "fills": sum(isinstance(each.value, Fill) for each in result.found),
        "trades": sum(isinstance(each.value, ClosedTrade) for each in result.found),
        "unpriced": result.unpriced, "new": new, "duplicates": duplicates, "problems": listed_problems(result.problems),
        "account": settings, "totals": totals, "mapping": mapping_json(result), "committed": False, "batch": None,
    }  # fmt: skip
    if handle is None:
        result.notes.append(new_agent_note(agent, commit))
    if commit:
        refuse_bad_rows(result.problems, result.rows, bool(result.found), skip_bad)
        source = {"file": file.name, "format": name, "digest": file.digest, "mapping": result.mapping,
                  "header": list(result.header)}  # fmt: skip
        desk = memory.agent_for_writing(agent, make=True, settings=_stated_settings(settings))
        done = desk.imports.commit(list(_values(result.found)), source, outcomes)
        answer |= {"committed": True, "batch": done.batch if done.new else None}
    return answer


def _check_found(memory: Memory, handle: AgentMemory | None, result: ImportResult, settings: Mapping[str, str | None]) -> None:
    """Report and drop what cannot be imported as it is; only the memory and the clock show that."""
    if handle is None and result.kind != "decisions":
        _ask_for_account(result, settings)
    result.found[:] = drop_future(memory.clock.now(), result.found, result.problems)
    if handle:
        result.found[:] = take_owners_names(handle, result.found, result.notes)
        result.found[:] = drop_changed(handle, result.found, result.problems)
        result.found[:] = drop_changed_outcomes(handle, result.found, result.problems)
        result.found[:] = drop_stale(handle, result.found, result.problems)
    unknown = sum(each.outcome is not None and each.outcome.known_at is None for each in result.found)
    if unknown:
        result.notes.append(f"{unknown} outcomes have neither a time nor a horizon: they count as known from the import on")


def _account_settings(
    handle: AgentMemory | None, result: ImportResult, currency: str | None, starting_equity: str | None
) -> dict[str, str | None]:
    """Returns the currency and the starting equity of the account: of the agent, else as stated, else as the file shows them."""
    stated = None if starting_equity is None else read(Quantity, starting_equity, at="starting_equity")
    if handle is not None:
        own = handle.agent.settings
        if stated is not None and stated != own.stated_equity:
            known = "none" if own.stated_equity is None else decimal_text(own.stated_equity)
            problem = f"the agent '{handle.agent.id}' exists with another one ({known}), and settings never change"
            raise Invalid("starting_equity", problem, "Leave it out, or import into a new agent")
        return {"currency": own.currency, "starting_equity": _equity_text(own.stated_equity)}
    start = stated if stated is not None else result.starting_equity
    return {"currency": result.currency or currency or DEFAULT_CURRENCY, "starting_equity": _equity_text(start)}


def _equity_text(equity: Decimal | None) -> str | None:
    return None if equity is None else decimal_text(equity)


def _stated_settings(settings: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if value is not None}


def _ask_for_account(result: ImportResult, settings: Mapping[str, str | None]) -> None:
    """Ask for what neither the file nor the caller states about the account of a new agent."""
    asked: list[ImportProblem] = []
    if result.currency is None:
        problem = f"the file does not state the currency of its amounts; read as {settings['currency']}"
        asked.append(ImportProblem(None, "currency", problem, "If it is another one, give it, like --currency EUR", blocks=False))
    if settings["starting_equity"] is None:
        problem = "nobody stated what the account started with; results are given in money, not in percent of it"
        asked.append(ImportProblem(None, "starting_equity", problem, "Give it, like --starting-equity 25000", blocks=False))
    result.problems[:0] = asked


def _existing(memory: Memory, agent: str | None) -> AgentMemory | None:
    """Returns the agent; None before its first write, because a preview creates nothing.

    An import that names no agent is refused where there are others: it was most likely meant for one of them.
    """
    if not agent:
        memory.default_agent()
    try:
        return memory.agent(read(Slug, agent or DEFAULT_AGENT, at="agent"))
    except Unknown:
        return None


def _saved_mapping(handle: AgentMemory | None, header: Sequence[str], kind: str | None) -> Mapping[str, str] | None:
    """Returns the mapping of the latest import of the same columns and kind, also of one that was undone."""
    kinds = None if kind is None else kinds_of(kind)
    for item, _ in reversed(handle.imports.all() if handle else []):
        mapping = item.body.get("mapping")
        if sorted(item.body.get("header", ())) == sorted(header) and mapping and (kinds is None or mapping.get("kind") in kinds):
            return dict(mapping)
    return None


def _values(found: Sequence[FoundRow]) -> Iterator[Observed]:
    for each in found:
        if each.decision is not None:
            yield each.decision
        yield each.value


def _count_new(handle: AgentMemory | None, found: Sequence[FoundRow], outcomes: Sequence[FoundOutcome]) -> tuple[int, int]:
    if handle:
        return handle.imports.preview([each.value for each in found], [outcome.stated for outcome in outcomes])
    distinct = len({(each.value.kind, key_of(each.value)) for each in found})
    return distinct, len(found) - distinct
