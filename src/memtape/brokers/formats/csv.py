"""CSV: comma, semicolon, tab or bar between the cells; one line names the columns."""

from __future__ import annotations

from memtape.brokers.files import ImportFile, csv_table, starts_like_json
from memtape.brokers.headings import count_known_names
from memtape.brokers.html_tables import is_web_page
from memtape.brokers.importer import ImportOptions, ImportResult, importer
from memtape.brokers.tables import read_table


@importer("csv")
class CsvImporter:
    """Any CSV file of fills or closed trades."""

    general = True

    def claims(self, file: ImportFile) -> bool:
        """Returns True for any text that is neither JSON nor a web page."""
        return not starts_like_json(file) and not is_web_page(file.text)

    def read(self, file: ImportFile, options: ImportOptions) -> ImportResult:
        """Read the rows of the file."""
        return read_table(csv_table(file, count_known_names), options)
