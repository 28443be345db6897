"""HTML: MetaTrader's reports of an account, as the terminal saves them."""

from __future__ import annotations

from dataclasses import replace

from memtape.brokers.files import ImportFile
from memtape.brokers.headings import count_known_names
from memtape.brokers.html_tables import is_web_page, section_of_trades
from memtape.brokers.importer import ImportOptions, ImportResult, importer
from memtape.brokers.tables import read_table


@importer("html")
class HtmlImporter:
    """The closed trades of a report."""

    general = True

    def claims(self, file: ImportFile) -> bool:
        """Returns True for a web page."""
        return is_web_page(file.text)

    def read(self, file: ImportFile, options: ImportOptions) -> ImportResult:
        """Read the first section that lists trades."""
        found = section_of_trades(file.name, file.text, count_known_names)
        if options.currency is None and found.currency is not None and "currency" not in options.mapping:
            options = replace(options, currency=found.currency)
        result = read_table(found.table, options)
        if found.left_out:
            result.notes.append(f"{found.left_out} rows of sums and cash are left out")
        return result
