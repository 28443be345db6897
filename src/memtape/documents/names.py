"""The things that a question names: a quoted phrase, a rule, an id, an error code, a ticker, a file.

A passage that has the named thing is a better answer than one that only shares words with the question. What merely looks like a
name is none: currencies and common abbreviations, and periods such as FY2018 or Q3.

>>> [name.text for name in find_names('did Rule 16 or L47 forbid "no trade" in TRADE-LOG.md on PLTR after HTTP 451?')]
['no trade', 'TRADE-LOG.md', 'Rule 16', 'HTTP 451', 'L47', 'PLTR']
>>> find_names("what was the FY2018 revenue in USD?")
()
>>> rule, ticker = find_names("R-17 AI")
>>> rule.is_in("broke R17 twice"), rule.is_in("see R-171"), ticker.is_in("AI stocks"), ticker.is_in("said ai")
(True, False, True, False)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_QUOTED = re.compile(r'"([^"\n]{2,120})"|“([^”\n]{2,120})”|「([^」\n]{1,60})」|(?<!`)``?([^`\n]{2,120})``?(?!`)')
_FILE = re.compile(
    r"(?<![\w/.-])[\w./-]*\w\.(?:md|markdown|mdx|txt|rst|log|jsonl?|ndjson|csv|py|ya?ml|toml)(?!\w)", re.IGNORECASE
)
_NUMBERED = re.compile(
    r"(?<![\w$])(?:rule|lesson|law|principle|section|chapter|gate|http|error|code|ticket|order)[ \t]+#?\d+[a-z]?(?!\w)",
    re.IGNORECASE,
)
_CODE = re.compile(r"(?<![\w$])\$?[A-Za-z0-9]+(?:[-_./:#=^][A-Za-z0-9]+)*(?!\w)")
_ID = re.compile(r"([A-Za-z]{1,5})([-_]?)(\d{1,6})")
_PERIOD = re.compile(r"(?:FY|CY|Q)\d+|(?:19|20)\d\d(?:[-/](?:19|20)\d\d)?|\d+Q\d*", re.IGNORECASE)
_VERSION = re.compile(r"([A-Za-z]+)/\d[\d.]*")  # HTTP/2
_LINE_START = re.compile(r"^[ \t>|*_#`+\[-]*", re.MULTILINE)  # up to the first word
# "Rule 16" may stand as item 16 of a list of rules.
_ITEM_OF_LIST = re.compile(r"(rule|lesson|law|principle|gate)\s+#?(\d+[a-z]?)", re.IGNORECASE)
# Written in capitals and no name of one thing: terms of finance and of computing, currencies, emphasised words.
_ABBREVIATIONS = frozenset(re.findall(r"\S+", """
    AM API ATM CEO CFO CPU EPS EBIT EBITDA ESG EST ETF EU FAQ FY GAAP GDP HR ID IPO IRA IRS LLC NO OK OR PDF PM PNL PP ROA ROE
    ROI SEC SQL TV UK UN URL U.S US USA UTC VS YES YOY AND NOT THE WHY MY CSV JSON HTML LLM USD EUR GBP JPY CHF AUD CAD NZD
    CNY CNH HKD SEK NOK II III IV
    ANSI ASCII AWS CLI CSS DELETE DNS FTP GCP GET GPU GUI HTTP HTTPS IDE IETF IO JWT LAN MIME OS PUT RAM REST RFC RPC SDK SMTP
    SSH SSL TCP TLS UDP URI URLS UTF UUID UX VPN XML YAML
    ALWAYS DONT ETC FIX FIXME IMO MUST NEVER NONE NOTE NULL ONLY TBA TBD TODO TRUE FALSE WIP
"""))  # fmt: skip
# A ticker is short, or a pair that ends with what it is quoted in. A longer word in capitals is often just emphasised.
MAX_TICKER_LETTERS = 6
_QUOTED_IN = re.compile(r"\w+(?:USD[TC]?|EUR|JPY|GBP|CHF|AUD|CAD|NZD|CNH|BTC|ETH|PERP)")


@dataclass(frozen=True, slots=True)
class Name:
    """A thing that a question names, as written there."""

    text: str
    exact_case: bool = False  # a ticker: as a word it may mean something else
    is_file: bool = False
    is_doubtful: bool = False  # emphasis or a term in a sentence: a name only if hardly anything else is asked

    @property
    def spellings(self) -> tuple[str, ...]:
        """How it may be written: an id with and without its separator."""
        bare = self.text.removeprefix("$")
        if self.is_file or not (parts := _ID.fullmatch(bare)):
            return (bare,)
        return tuple(dict.fromkeys((bare, f"{parts[1]}-{parts[3]}", f"{parts[1]}{parts[3]}")))

    @property
    def list_item(self) -> tuple[str, str] | None:
        """The kind and the number of an item of a list that may be named: Rule 16 is item 16 of some rules.

        >>> find_names("Rule 16")[0].list_item, find_names("R-16")[0].list_item
        (('rule', '16'), None)
        """
        found = _ITEM_OF_LIST.fullmatch(self.text)
        return (found[1].lower(), found[2].lower()) if found else None

    def is_in(self, text: str) -> bool:
        """Returns True if a text has the name: the same letters apart from spacing, not inside a longer word."""
        return any(self._contains(text, spelling) for spelling in self.spellings)

    def is_item_in(self, text: str, around: str) -> bool:
        """Returns True if a text has a list with the named item, and what is `around` it says that it is a list of such items.

        >>> rule = find_names("Rule 2")[0]
        >>> rule.is_item_in("1. No news.\\n2. Size 1 %.", "RULES"), rule.is_item_in("1. Up.\\n2. Open.", "steps of the day")
        (True, False)
        """
        if (item := self.list_item) is None or not re.search(rf"(?<![^\W_]){item[0]}s?(?![^\W_])", around.lower()):
            return False
        return re.search(rf"^[ \t>|*_-]*{item[1]}(?:[.):]|[ \t]*\|)", text.lower(), re.MULTILINE) is not None

    def is_defined_in(self, text: str) -> bool:
        """Returns True if a line of a text begins with the name, as the entry of a list, a table or a heading does.

        Only what has a number is defined: a line that begins with a ticker or a quoted word may say anything.

        >>> lesson = find_names("L47")[0]
        >>> [lesson.is_defined_in(line) for line in ("- **L47**: no grids", "| L47 | no grids |", "See L47.")]
        [True, True, False]
        """
        if self.is_file or not any(sign.isdigit() or sign == "_" for sign in self.text):
            return False
        starts = [start.end() for start in _LINE_START.finditer(text)]
        patterns = [re.compile(self._pattern(spelling), re.IGNORECASE) for spelling in self.spellings]
        return any(pattern.match(text, start) for pattern in patterns for start in starts)

    def is_in_path(self, path: str) -> bool:
        """Returns True if a path has the name. Files are often named in small letters, so its case does not matter.

        >>> find_names("why no HTF?")[0].is_in_path("2026-02-23_drop_htf_confirm/DECISION.md")
        True
        """
        return replace(self, exact_case=False).is_in(path)

    def _contains(self, text: str, spelling: str) -> bool:
        if not self.exact_case:
            spelling, text = spelling.lower(), text.lower()
        return re.search(self._pattern(spelling), text) is not None

    def _pattern(self, spelling: str) -> str:
        wanted = r"[\s#]+".join(re.escape(part) for part in re.split(r"[\s#]+", spelling) if part)
        return rf"(?<![^\W_]){wanted}(?![^\W_])"


def find_names(question: str) -> tuple[Name, ...]:
    """Returns the things that a question names, each once."""
    phrases = [
        Name(
            " ".join(next(part for part in match.groups() if part).split()), is_doubtful=bool(match[4]) and not is_name(match[4])
        )
        for match in _QUOTED.finditer(question)
    ]
    rest = _QUOTED.sub(" ", question)
    files = _FILE.findall(rest)
    rest = _FILE.sub(" ", rest)
    numbered = [" ".join(each.split()) for each in _NUMBERED.findall(rest)]
    rest = _NUMBERED.sub(" ", rest)
    # In a question in capitals, capitals mean nothing.
    shouted = rest.upper() == rest and len(rest.split()) > 4
    codes = [code for code in _CODE.findall(rest) if is_name(code) and not (shouted and code.isalpha())]
    names = [
        *(each for each in phrases if re.search(r"[^\W_]", each.text)),
        *(Name(each, is_file=True) for each in files),
        *(Name(each) for each in numbered),
        *(Name(each, exact_case=_is_shouted(each), is_doubtful=_is_shouted(each) and not _may_be_ticker(each)) for each in codes),
    ]
    return tuple({name.text.lower(): name for name in reversed(names)}.values())[::-1]


def _is_shouted(word: str) -> bool:
    """Returns True for a word in capitals, also if a dollar marks it as a ticker.

    >>> [_is_shouted(word) for word in ("SHOP", "$SHOP", "$shop", "R-17")]
    [True, True, False, False]
    """
    bare = word.removeprefix("$")
    return bare.isalpha() and bare.isupper()


def _may_be_ticker(word: str) -> bool:
    """Returns True if a word in capitals is as short as a ticker, or a pair.

    >>> [_may_be_ticker(word) for word in ("PLTR", "XAUUSD", "DOGEUSDT", "DEPRECATED")]
    [True, True, True, False]
    """
    return word.startswith("$") or len(word) <= MAX_TICKER_LETTERS or _QUOTED_IN.fullmatch(word) is not None


def is_name(word: str) -> bool:
    """Returns True if a word is the name of one thing: a ticker, an id, a code.

    >>> [is_name(word) for word in ("BTC", "R-17", "L47", "ERR_4031", "10004", "$tsla", "EUR/USD", "order_rejected", "BRK.B")]
    [True, True, True, True, True, True, True, True, True]
    >>> [is_name(word) for word in ("I", "stop", "Gold", "12", "buy/sell", "e.g", "FY2018", "Q3", "USD", "3M", "HTTP/2")]
    [False, False, False, False, False, False, False, False, False, False, False]
    """
    bare = word.removeprefix("$")
    letters = any(sign.isalpha() for sign in bare)
    if word != bare and letters:
        return True
    if bare.upper() in _ABBREVIATIONS or _PERIOD.fullmatch(bare):
        return False
    # A version of what is no name itself.
    if (version := _VERSION.fullmatch(bare)) and version[1].upper() in _ABBREVIATIONS:
        return False
    if any(sign.isdigit() for sign in bare):
        digits = sum(sign.isdigit() for sign in bare)
        # What begins with a digit is a measure: 3M, 18-month, 0.5x.
        return bare[0].isalpha() or (digits >= 4 and not letters) or (digits >= 2 and len(bare) >= 8 and bare.isalnum())
    if bare.upper() == bare:
        return len(bare) >= 2
    return "_" in bare
