"""The report in a zip archive: freqtrade packs each result with its configuration.

Only the metrics are kept, as the block that `memtape sim` writes beside a page: the rest of a result is a list of its trades.

>>> import io
>>> packed = io.BytesIO()
>>> with zipfile.ZipFile(packed, "w") as archive:
...     archive.writestr("result.json", '{"strategy": {"Momo": {"total_trades": 41, "sharpe": 0.7, "winrate": 0.56}}}')
...     archive.writestr("result_config.json", "{}")
>>> block = archived_report(packed.getvalue())
>>> block is not None and '"win_rate": 0.56' in block, archived_report(b"PK no archive")
(True, None)
"""

from __future__ import annotations

import io
import zipfile
from zlib import error as ZlibError

from memtape.documents.reports import parse_report, report_block

ARCHIVE_SUFFIX = ".zip"
MAX_MEMBER_BYTES = 50_000_000  # unpacked; a result of thousands of trades has some megabytes
MAX_MEMBERS = 50


def archived_report(content: bytes) -> str | None:
    """Returns the metrics block of the first report in an archive; None if there is none."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist()[:MAX_MEMBERS]:
                if not member.filename.endswith(".json") or member.file_size > MAX_MEMBER_BYTES:
                    continue
                with archive.open(member) as opened:
                    text = opened.read(MAX_MEMBER_BYTES).decode("utf-8", "replace")
                if (report := parse_report(member.filename, text)) is not None:
                    return report_block(report)
    # A damaged or encrypted archive, or one that is packed in a way that Python cannot read.
    except (zipfile.BadZipFile, ZlibError, RuntimeError, NotImplementedError, EOFError):
        return None
    return None
