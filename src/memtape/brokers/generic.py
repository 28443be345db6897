"""Any table of fills or closed trades: CSV, or JSON and JSONL of objects. Read this to see how a file becomes values.

The columns are found (`mapping`), what concerns the whole file is decided (`sheets`), the rows are read (`roundtrips`,
`executions`). Named formats are other readers beside these two.
"""

from __future__ import annotations

from collections.abc import Mapping

from memtape.brokers.executions import fills
from memtape.brokers.files import CellTable, FileRows, clean_name, csv_table, json_table
from memtape.brokers.headings import known_names
from memtape.brokers.importer import ImportOptions, ImportProblem, ImportResult
from memtape.brokers.mapping import choose
from memtape.brokers.roundtrips import closed_trades
from memtape.brokers.sheets import Sheet
from memtape.errors import Invalid


class CsvReader:
    """Comma, semicolon, tab or bar between the cells; one line names the columns."""

    def claims(self, content: FileRows) -> bool:
        """Whatever is text."""
        return not JsonReader().claims(content)

    def read(self, content: FileRows, wishes: ImportOptions) -> ImportResult:
        """The file, read."""
        return read_table(csv_table(content, known_names), wishes)


class JsonReader:
    """An array of objects, one object a line, or an answer with an array of objects in it."""

    def claims(self, content: FileRows) -> bool:
        """Whether it begins like JSON."""
        return content.text.lstrip()[:1] in ("[", "{")

    def read(self, content: FileRows, wishes: ImportOptions) -> ImportResult:
        """The file, read."""
        return read_table(json_table(content), wishes)


def read_table(table: CellTable, wishes: ImportOptions) -> ImportResult:
    """A table of texts as observed values."""
    rows = len(table.rows) + len(table.bad)
    left_out = _only(table, wishes.where)
    chosen = choose(table, wishes)
    sheet = Sheet.of(table, chosen, wishes)
    if left_out:
        sheet.notes.append(f"{left_out} rows do not match --where and were left out")
    sheet.problems += [ImportProblem(line, "row", problem, fix) for line, problem, fix in table.bad]
    found = closed_trades(sheet) if chosen.kind == "trades" else fills(sheet)
    sheet.finish()
    sheet.problems.sort(key=lambda problem: problem.line or 0)
    used = {at for places in chosen.columns.values() for at in places}
    if wishes.on_progress:
        wishes.on_progress(len(table.rows), len(table.rows))
    return ImportResult(
        header=table.header, rows=rows, kind=chosen.kind, mapping=chosen.spelled(table.header), mapped_by=chosen.by,
        unused=[name for at, name in enumerate(table.header) if at not in used], found=found, problems=sheet.problems,
        notes=sheet.notes,
    )  # fmt: skip


def _only(table: CellTable, where: Mapping[str, str]) -> int:
    """Keep the rows whose columns have these values; how many were dropped."""
    before = len(table.rows)
    for name, value in where.items():
        if name not in table.header:
            names = ", ".join(table.header)[:300]
            raise Invalid("where", f"there is no column '{clean_name(name)}'", f"The columns are: {names}")
        at = table.header.index(name)
        table.keep([n for n, cell in enumerate(table.column(at)) if cell == value.strip()])
    return before - len(table.rows)
