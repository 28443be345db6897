"""How much of the pinned rules a brief shows: all of them wherever the budget allows it.

Rules bind the agent, so they go before everything that may be left out, and take whatever the budget has free. Where even that is
too little, each document gets an equal share, and what a short one does not need goes to the longer ones: a long manual must not
push five lines of limits out. Of each document the beginning is shown, and the parts that are not shown are named, so that the
agent knows that there are rules which it has not read.

>>> lines = [BriefLine(f"  | rule {n}", part="RULES.md › Exits", number=n) for n in range(1, 31)]
>>> rules = BriefSection("rules", "user", (BriefLine("- RULES.md"), *lines), "## Rules")
>>> print(cut_rules(rules, 36, lambda text: len(text.split())).text)
## Rules
- RULES.md
  | rule 1
  | rule 2
- NOT SHOWN for want of room: RULES.md › Exits, lines 3 to 30. They bind you too: if in doubt, do not trade.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from memtape.core.brief.budget import BriefLine, BriefSection, Count

# The share of the budget that is kept free for what changes with every tick: if it were not, each tick would cut the rules at
# another line, and no provider could cache the text after them.
CHANGING_SHARE = 0.15
MAX_NAMED_PARTS = 12


def cut_rules(section: BriefSection, room: int, count: Count) -> BriefSection:
    """Returns the section of the rules in at most so many tokens, if its fixed lines allow it, with what it does not show."""
    documents = _documents(section.lines)
    spent = count(section.text) - sum(count(f"{line.text}\\n") for lines in documents for line in lines)
    for share in (1.0, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.0):
        cut = _cut(section, documents, max(int((room - spent) * share), 0), count)
        # The names of the parts that are not shown take room themselves, how much is known only when they are cut.
        if count(cut.text) <= room:
            break
    # Of a few short rules the names of what is not shown may be longer than the rules.
    return cut if count(cut.text) < count(section.text) else section


def _documents(lines: Sequence[BriefLine]) -> list[list[BriefLine]]:
    """Returns the lines that may be left out, by document; its title stays with them."""
    rules = [line for line in lines if line.part]
    return [list(group) for _, group in groupby(rules, key=lambda line: line.sources)]


def _cut(section: BriefSection, documents: Sequence[Sequence[BriefLine]], room: int, count: Count) -> BriefSection:
    costs = [[count(f"{line.text}\n") for line in lines] for lines in documents]
    shares = _equal_shares([sum(each) for each in costs], room)
    kept: set[int] = set()
    unshown: list[BriefLine] = []
    for lines, cost, share in zip(documents, costs, shares, strict=True):
        taken, full = 0, False
        for line, tokens in zip(lines, cost, strict=True):
            taken += tokens
            full = full or taken > share
            if full:
                unshown.append(line)
            else:
                kept.add(id(line))
    names = _names(unshown)
    shown = [line for line in section.lines if not line.part or id(line) in kept]
    if names:
        shown.append(
            BriefLine(f"- NOT SHOWN for want of room: {'; '.join(names)}. They bind you too: if in doubt, do not trade.")
        )
    return replace(section, lines=tuple(shown), left_out=section.left_out + len(unshown), unshown=tuple(names))


def _equal_shares(wanted: Sequence[int], room: int) -> list[int]:
    """Returns how much each gets: all that it wants, or an equal share of what those that want less leave over.

    >>> _equal_shares([100, 1_000, 900], 1_100)
    [100, 500, 500]
    """
    shares = [0] * len(wanted)
    for left, at in zip(range(len(wanted), 0, -1), sorted(range(len(wanted)), key=lambda at: wanted[at]), strict=True):
        shares[at] = min(wanted[at], room // left)
        room -= shares[at]
    return shares


def _names(lines: Sequence[BriefLine]) -> list[str]:
    """Returns the parts that these lines belong to, with their lines; of many parts the first."""
    names: list[str] = []
    for part, group in groupby(lines, key=lambda line: line.part):
        numbers = [line.number for line in group]
        names.append(f"{part}, line{f's {numbers[0]} to' if len(numbers) > 1 else ''} {numbers[-1]}" if numbers[0] else part)
    more = len(names) - MAX_NAMED_PARTS
    return names if more < 2 else [*names[:MAX_NAMED_PARTS], f"{more} parts more"]
