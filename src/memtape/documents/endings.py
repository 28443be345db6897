r"""Questions about why something was given up, and the passages that say that it was.

"Why did we stop using the grid?" shares more words with a note that says "using the grid again" than with one that says "Grid:
dropped." So for such a question it is looked up where the subject stands with a word of ending: in one sentence, or in a sentence
that begins with the ending under a heading with the subject.

>>> subject = ended_subject("Why did we stop using the grid?")
>>> subject
' the grid'
>>> words = lambda text: set(re.findall(r"\w+", text.lower()))
>>> [says_that_it_ended(text, "", {"grid"}, words) for text in ("Grid: dropped. It bled.", "Stop using stops on the grid.")]
[1.0, 0.0]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set

MIN_SHARE = 0.5  # of the words of the subject that a passage must have
ELSEWHERE = 0.5  # of a word of the subject that stands in another part of the sentence than the ending, or above it
AT_THE_START = 3  # so many words into a sentence, an ending is about what the heading names
_VERBS = "stop|drop|retire|abandon|remove|disable|discontinue|scrap|quit|cease|give up|get rid of|switch off|turn off|leave"
_PAST = "dropped|retired|abandoned|removed|disabled|discontinued|scrapped|switched off|turned off|given up|stopped"
_DOING = "using|running|doing|trading|selling|buying|writing|taking|holding|shorting|opening"
_WHAT = rf"(?! out\b)(?: (?:{_DOING}))?\b(.*)"
_WHO = "(?:we|you|i|they|(?:the|our) (?:desk|team|bot|agent|fund|owner|trader|book))"
_USE = "use|run|do|trade|sell|buy"
_ASKED = (
    re.compile(rf"\b(?:did|do|have|had) {_WHO}(?: \w+ly)? (?:{_VERBS}){_WHAT}", re.IGNORECASE),
    re.compile(rf"\b{_WHO} (?:have |had )?(?:{_PAST}){_WHAT}", re.IGNORECASE),
    re.compile(rf"\b(?:made|make|makes|let) (?:us|you|them|me) (?:{_VERBS}){_WHAT}", re.IGNORECASE),
    re.compile(rf"\b(?:was|were|is|are|been) (.*?)(?:{_PAST})(?! out\b)", re.IGNORECASE),
    re.compile(rf"\b(?:don't|do not|didn't|not) (?:\w+ )?(?:{_USE}) (.*?)(?:any ?more|any longer)\b", re.IGNORECASE),
    re.compile(rf"\bno longer (?:{_USE})\b(.*)", re.IGNORECASE),
    re.compile(r"\b(?:is|are) (.*?)no longer\b", re.IGNORECASE),
)  # fmt: skip
_CLAUSE_END = re.compile(
    r"[?!,;]|\.(?:\s|$)|\b(?:and (?:what|when|why|how|who)|because|after|when|although|instead)\b", re.IGNORECASE
)
# "Stop" is mostly an order: it ends what it is said of only in "stopped using it".
_ENDING = re.compile(
    r"\b(?:dropped|retired|abandoned|removed|disabled|discontinued|scrapped|ceased|"
    r"killed|axed|banned|shelved|suspended|withdrawn|phased out|pulled the plug|"
    r"(?:switched|turned|switch|turn)(?: (?:it|this|them))? off|"
    r"(?:gave|given|give) up|got rid of|no longer|(?:not|\w+n't)\b.{0,80}\bany(?: ?more| longer)|"
    r"off since|(?:is|are|was|were) off|(?:we|i|they) (?:left|leave))\b",
    re.IGNORECASE,
)
_STOPPED = re.compile(
    rf"\b(?:stop(?:ped|s)?|quit|ceased?|g[ai]ve up) (?:(?:{_DOING}) )?(?:the |our |all |any |on |with )*([\w'-]+)", re.IGNORECASE
)
_NOT = re.compile(r"\b(?:not|never|nobody|\w+n't)(?: \w+)?\s*$", re.IGNORECASE)
_WE = re.compile(r"\b(?:we|i|you|they)(?: \w+)?\s*$", re.IGNORECASE)
_IT = re.compile(r"\s+(?:it|this|that|them|these)\b", re.IGNORECASE)
_BLOCK = re.compile(r"\n(?:[ \t]*\n|(?=[ \t]*(?:[-*+>|#]|\d+[.)]\s)))")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_COMMA = re.compile(r",\s|;|\s(?:-|–|—)\s|\b(?:but|while|and we|and the)\b", re.IGNORECASE)
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]+")


def ended_subject(question: str) -> str:
    """Returns the part of a question that names what was given up; empty if it does not ask about that.

    >>> asked = ("why was gamma scalping abandoned?", "why did we drop the wheel and what did it cost?", "why did gold drop?")
    >>> [ended_subject(each) for each in asked]
    ['gamma scalping ', ' the wheel ', '']
    """
    question = " ".join(question.replace("’", "'").split())
    found = (pattern.search(question) for pattern in _ASKED)
    return next((_CLAUSE_END.split(asked[1])[0] for asked in found if asked), "")


def says_that_it_ended(text: str, around: str, subject: Set[str], words_of: Callable[[str], Set[str]]) -> float:
    r"""Returns the share of the words of a subject of which a passage says that it was given up, from 0 to 1.

    `around` is what stands above the passage: its file and headings. `words_of` returns the words of a text in the form of the
    subject.

    >>> passages = ("Retired in May.", "We retired the old laptop.", "The grid was never dropped.", "We stopped using the grid.")
    >>> [says_that_it_ended(text, "grid", {"grid"}, lambda text: set(re.findall(r"\w+", text.lower()))) for text in passages]
    [1.0, 0.5, 0.0, 1.0]
    """
    best = 0.0
    for heading, sentence in _sentences(text):
        if not (endings := _endings(sentence, subject, words_of)):
            continue
        words = words_of(sentence)
        above = words_of(f"{around} {heading}") - words
        for each in endings:
            near = words_of(_clause(sentence, each))
            from_above = 1.0 if _is_of_the_heading(sentence, each) else ELSEWHERE
            told = len(subject & near) + ELSEWHERE * len(subject & words - near) + from_above * len(subject & above)
            best = max(best, told / len(subject))
    return best if best >= MIN_SHARE else 0.0


def _endings(sentence: str, subject: Set[str], words_of: Callable[[str], Set[str]]) -> list[re.Match[str]]:
    """Returns where a sentence says that something ended."""
    found = [*_ENDING.finditer(sentence), *(each for each in _STOPPED.finditer(sentence) if words_of(each[1]) & subject)]
    return [each for each in found if not _NOT.search(sentence[: each.start()])]


def _clause(sentence: str, ending: re.Match[str]) -> str:
    """Returns the part of a sentence around an ending.

    >>> sentence = "The ladder was dropped, the grid kept."
    >>> _clause(sentence, re.search("dropped", sentence))
    'The ladder was dropped'
    """
    start = max((each.end() for each in _COMMA.finditer(sentence, 0, ending.start())), default=0)
    end = _COMMA.search(sentence, ending.end())
    return sentence[start : end.start() if end else len(sentence)]


def _is_of_the_heading(sentence: str, ending: re.Match[str]) -> bool:
    """Returns True if a sentence begins with an ending and does not name what ended."""
    before, behind = sentence[: ending.start()], sentence[ending.end() :]
    names_another = _WE.search(before) is not None and not (_IT.search(ending[0]) or _IT.match(behind))
    return len(before.split()) < AT_THE_START and not names_another


def _sentences(text: str) -> Iterator[tuple[str, str]]:
    """Yields the sentences and headings of a text, each with the heading above it."""
    heading = ""
    for block in _BLOCK.split(text):
        if start := _HEADING.match(block):
            title, _, block = block[start.end() :].partition("\n")
            heading = title
            yield "", title
        for sentence in _SENTENCE.split(" ".join(block.split())):
            if sentence:
                yield heading, sentence
