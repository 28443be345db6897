"""Which labels, symbols and reporters occur among the rows of columns: counted in one pass, however many rows there are.

>>> from memtape.columns.index import Columns
>>> columns = Columns()
>>> nothing = columns.mask(0, None, None)
>>> names_present(columns.session_code, columns.sessions, nothing), reporters_present(columns, nothing)
((), [])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from memtape.columns.index import Bools, Columns


def names_present(codes: NDArray[Any], names: Sequence[str], mask: Bools) -> tuple[str, ...]:
    """Returns the names that occur among the rows of a mask, in order of the alphabet; -1 stands for none."""
    counted = np.bincount(codes[: mask.size][mask].astype(np.intp) + 1, minlength=1)
    return tuple(sorted(names[place - 1] for place in np.flatnonzero(counted).tolist() if place))


def reporters_present(columns: Columns, mask: Bools) -> list[tuple[bool, str]]:
    """Returns who reported the trades among the rows of a mask, each with whether the trade is a claim."""
    trades = mask & ~columns.shadow[: mask.size]
    codes = 2 * columns.source_code[: mask.size][trades].astype(np.intp) + columns.claimed[: mask.size][trades]
    return [(bool(code % 2), columns.sources[code // 2]) for code in np.flatnonzero(np.bincount(codes)).tolist()]
