"""JSON: an array of objects, one object per line (JSONL), or an object that contains such an array."""

from __future__ import annotations

from memtape.brokers.files import ImportFile, json_table, starts_like_json
from memtape.brokers.importer import ImportOptions, ImportResult, importer
from memtape.brokers.tables import read_table


@importer("json")
class JsonImporter:
    """Any JSON file of fills or closed trades."""

    general = True

    def claims(self, file: ImportFile) -> bool:
        """Returns True if the text starts like JSON."""
        return starts_like_json(file)

    def read(self, file: ImportFile, options: ImportOptions) -> ImportResult:
        """Read the objects of the file."""
        return read_table(json_table(file), options)
