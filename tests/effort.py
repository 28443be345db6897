"""How hard the tests try: few examples in the suite, many in the soak run.

The suite (`make test`) takes the number of examples that finds a planted bug with room to spare; `make soak` sets
MEMTAPE_SOAK=1 and runs the same properties with the larger number.
"""

from __future__ import annotations

import os

SOAK = os.environ.get("MEMTAPE_SOAK") == "1"


def examples(suite: int, soak: int) -> int:
    """The number of examples for this run.

    >>> examples(10, 500) in (10, 500)
    True
    """
    return soak if SOAK else suite
