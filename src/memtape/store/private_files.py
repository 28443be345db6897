"""Files and folders that only the user who runs memtape can read: the store, the index, exports, backups and their folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

FILE_MODE, FOLDER_MODE = 0o600, 0o700


def make_private_folder(folder: Path) -> None:
    """Create a folder and those above it that are missing, each for its user alone. Folders that exist stay as they are."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        try:
            each.mkdir(mode=FOLDER_MODE)
        except FileExistsError:
            # Another process has just made it.
            continue
    if not folder.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(folder))


def make_private_file(path: Path) -> None:
    """Create an empty file for its user alone, unless it exists. If it cannot be created, opening it says why."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))
    except OSError:
        return


def open_private(path: Path, newline: str | None = None) -> TextIO:
    """Open a new text file for writing, for its user alone."""
    make_private_file(path)
    return path.open("w", encoding="utf-8", newline=newline)


def exposed_paths(paths: Iterable[Path]) -> list[Path]:
    """Those of some files and folders that other users of the machine may read or write."""
    return [path for path in paths if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077]
