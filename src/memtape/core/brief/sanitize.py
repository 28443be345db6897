"""Makes text written by others safe for a model to read: one line of plain characters, without secrets, in quotes.

A reason, a note or a headline may contain anything: invisible characters, a heading that imitates one of the brief, a secret key.
The stored text stays as it is; every rendered text passes through here. Unicode is normalised to NFKC. Control, bidi, zero-width,
tag, variation-selector and private-use characters are removed, and so are ANSI sequences. Tags and square brackets are replaced,
because the brief uses them itself. Cleaning is idempotent.

>>> quote_text('buy\\u202e now\\n## Rules\\n- "ignore" the <system> [id] ```', 60)
'"buy now ## Rules - \\'ignore\\' the ‹system> (id) \\'"'
>>> redact_secrets("key sk-" + 10 * "a1" + " works")
'key (redacted) works'
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})  # control, format (bidi, zero-width, tags), surrogate, private, unassigned
SPACES = frozenset({"Zs", "Zl", "Zp"})
BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # letters and marks that show nothing
SELECTORS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))  # they change the look of the character before them
CUT = " ..."
REDACTED = "(redacted)"
REASON_CHARS = 120  # of a quoted reason

_UNSEEN = re.compile(f"[{''.join(BLANK)}{''.join(f'{chr(first)}-{chr(last)}' for first, last in SELECTORS)}]")
_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]P^_X]|[\x9d\x90\x9e\x9f\x98])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS and the like, with their text
    r"|\x1b[ -/]*[0-~]"
)
_TAG = re.compile(r"<(?=[/!?|a-zA-Z])")
_WHOLE_TAG = re.compile(r"<(?=[/!?|a-zA-Z][^<>]*>)")  # "rsi<30" is none
_NEWLINE = re.compile(r"\r\n|\r")
# Characters that look like a quotation mark, or like half of one.
QUOTATION_MARKS = "\"“”„‟«»`´＂❝❞❠⹂〝〞〟〃゛ʺˮ˝˵˶״ײ″‶‴‷⁗᳓ꞌ\U0001f676\U0001f677\U0001f678"
_DOUBLE = str.maketrans({**dict.fromkeys(QUOTATION_MARKS, "'"), "[": "(", "]": ")", "\\": "/"})
_SINGLES = re.compile("['‘’‚‛′‵ʹʼʻˈˊˋ׳՚＇❛❜]{2,}")  # two of them look like one quotation mark
_STRAY_MARKS = re.compile("(?:(?<=\\s)|(?<=^))[\u0300-\u036f\u3099\u309a]+")  # accents on nothing: two strokes in the air
_MARKER = re.compile(r"^(?:#{2,}\s*|#(?:\s+|$)|=+(?:\s|(?==)|$)\s*|[-*_](?:\s*[-*_]){2,}\s*$|(?:`{3,}|~{3,}).*$)")
_LIST = re.compile(r"^(?:(?:[-*+•]|\d{1,3}[.)])\s+)+")
_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,159}")
_PLAIN = re.compile(r"[A-Za-z0-9^$][A-Za-z0-9._:/@#=^$+&*()-]{0,39}")

# Each secret is recognised by its form. All patterns are open to the right, so that a truncated secret is recognised too.
_SECRETS = re.compile(
    "|".join((
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic and others
        r"(?<![A-Za-z0-9])[srp]k_(?:live|test)_[A-Za-z0-9]{10,}",
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16,}",
        r"(?<![A-Za-z0-9])(?:gh[opsur]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})",
        r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}",
        r"(?<![A-Za-z0-9])AIza[0-9A-Za-z_-]{30,}",
        r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",  # JSON web token
        r"(?<![A-Za-z0-9])\d{8,10}:[A-Za-z0-9_-]{35,}",  # Telegram bot
        r"(?<![A-Za-z0-9])[xyz]prv[1-9A-HJ-NP-Za-km-z]{50,}",  # wallet
        r"(?<![A-Za-z0-9])[5KL][1-9A-HJ-NP-Za-km-z]{50,}",  # private key for import into a wallet
        r"(?<![A-Za-z0-9])(?:0x)?[A-Za-z0-9+]{64,}={0,2}",  # 64 hex digits and longer: keys of wallets and of exchanges
        r"(?<![A-Za-z0-9])(?:\d{1,2}[.):]?\s+[a-z]{3,8}[\s,;]+){11,}\d{0,2}[.):]?\s*[a-z]{0,8}",  # numbered seed words
    )),
    re.DOTALL,
)  # fmt: skip
# If a word announces the secret, the word stays.
_ANNOUNCED = re.compile(
    r"(?P<word>\b(?:bearer|authorization:\s*basic)\s+)(?=[^\s]*\d)[A-Za-z0-9._~+/=-]{16,}"
    r"|(?P<key>\b(?:[a-z0-9]{1,24}[_-]){0,3}(?:api[ _-]?key|(?:secret|access|private)[ _-]?key|secret|passw(?:or)?d|passphrase"
    r"|(?:access|api|auth|bot|refresh|session)[ _-]?token)[\"']?\s*[:=]\s*[\"']?)(?!\(r)[^\s\"',;]{8,}"
    r"|(?P<phrase>\b(?:(?:seed|mnemonic|recovery|backup|secret)[ _-](?:phrase|words)|(?:seed|mnemonic)(?=\s*[:=]))"
    r"\s*(?:is|are|:|=|-)?\s*)(?-i:(?:[a-z]{3,8}[\s,;]+){11,}[a-z]{3,8})"
    r"|(?P<url>[a-z][a-z0-9+.-]{1,15}://[^\s:/@]{1,64}:)[^\s@/]{1,128}(?=@)",
    re.IGNORECASE,
)
# Matching all patterns at every character is slow. Each needs at least one of these marks, and few texts have any: a part of
# its form, a word longer than any natural word, numbered words, or a word that announces a secret.
FORMS = {
    "-": ("-----BEGIN", "sk-", "glpat-", "xox"),
    "_": ("k_live_", "k_test_", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_"),
    "A": ("AKIA", "ASIA", "AIza"),
    "J": ("eyJ",),
}  # by a character that each of them contains
MAX_WORD_CHARS = 43
ANNOUNCING = ("bearer", "basic", "seed", "mnemonic", "recovery", "backup", "secret", "://")
LIKE_LETTERS = "ſıİ\u212a"  # they equal s, i, i and k when case is ignored
_NUMBERED = re.compile(r"\d[.):]?\s+[a-z]{3,8}[\s,;]+\d{1,2}[.):]?\s+[a-z]{3,8}[\s,;]")
_ASSIGNED = re.compile(r"(?:key|secret|passwd|password|passphrase|token)[\"']?\s*[:=]")


def clean_line(text: str) -> str:
    """Returns plain characters on one line: nothing hidden, and single spaces only.

    >>> clean_line("\\x1b[31mﬁlled\\u200b at\\u00a0 ６５\\x1b[0m"), clean_line("a\\r\\n\\tb")
    ('filled at 65', 'a b')
    """
    flat = " ".join(text.split())
    hides = not flat.isprintable() or "\x1f" in text or (not flat.isascii() and _UNSEEN.search(flat) is not None)
    if hides:
        flat = "".join(map(_shown, _ANSI.sub("", text)))
    elif flat.isascii():
        return flat
    # This comes last, because removing a hidden character can bring together characters that NFKC joins.
    return " ".join(unicodedata.normalize("NFKC", flat).split())


@lru_cache(maxsize=4096)
def _shown(character: str) -> str:
    """Returns a character as it is rendered: itself, a space, or nothing."""
    if character in "\t\n\r\x0b\x0c\x1c\x1d\x1e\x85":
        return " "
    kind = unicodedata.category(character)
    if kind in SPACES:
        return " "
    selects = any(first <= ord(character) <= last for first, last in SELECTORS)
    return "" if kind in HIDDEN or character in BLANK or selects else character


def redact_secrets(text: str) -> str:
    """Returns the text without keys, tokens, passwords and seed phrases; a word that announces one stays.

    >>> redact_secrets("Authorization: Bearer abcdef0123456789abcdef")
    'Authorization: Bearer (redacted)'
    >>> redact_secrets("api_key = 'a8f3-22kd-99zz'"), redact_secrets("risk 1 % with a secret sauce")
    ("api_key = '(redacted)'", 'risk 1 % with a secret sauce')
    """
    return _ANNOUNCED.sub(_keeping_the_word, _SECRETS.sub(REDACTED, text)) if may_be_secret(text) else text


def may_be_secret(text: str) -> bool:
    """Returns True if a text has any mark of a secret. False positives only cost the closer look.

    >>> [may_be_secret(text) for text in ("the key level held", "key: the level held", "sk-abcdefabcdefabcdef", "a" * 64)]
    [False, True, True, True]
    """
    # Plain loops: every hit of a search comes by here, and generators would double the time.
    for sign, forms in FORMS.items():
        if sign in text:
            for form in forms:
                if form in text:
                    return True
    lower = text.lower()
    for word in ANNOUNCING:
        if word in lower:
            return True
    return (
        _has_long_word(text) or _NUMBERED.search(text) is not None
        or ((":" in text or "=" in text) and _ASSIGNED.search(lower) is not None)
        or (not text.isascii() and any(letter in text for letter in LIKE_LETTERS))
    )  # fmt: skip


def _has_long_word(text: str) -> bool:
    """Returns True if more characters follow each other without a space than in any natural word."""
    return len(text) > MAX_WORD_CHARS and max(map(len, text.split(" "))) > MAX_WORD_CHARS


def _keeping_the_word(found: re.Match[str]) -> str:
    word: str = next(group for group in found.groups() if group is not None)
    return word + REDACTED


def cap_length(text: str, cap: int) -> str:
    """Returns at most `cap` characters, cut between words if a space is near.

    >>> cap_length("breakout above the prior swing high", 24), cap_length("short", 24)
    ('breakout above the ...', 'short')
    """
    if len(text) <= cap:
        return text
    head = text[: max(cap - len(CUT), 0)]
    if text[len(head)] != " " and head.rfind(" ") > len(head) * 2 // 3:
        head = head[: head.rfind(" ")]
    return f"{head.rstrip()}{CUT}".strip()[:cap]


# A brief repeats most of the texts of the brief before it.
@lru_cache(maxsize=1024)
def one_line(text: str, cap: int = 2_000) -> str:
    """Returns a text as one line that is safe after a prefix.

    The opening of a tag is replaced, so that nothing imitates the markup of a prompt. Secrets are removed before the cut.
    """
    return cap_length(redact_secrets(_TAG.sub("‹", clean_line(text))), cap)


def quote_text(text: str, cap: int = REASON_CHARS) -> str:
    """Returns a text in quotation marks that it cannot close, nor seem to close with a mark that looks like one.

    Square brackets, which mark ids, become round ones.

    >>> quote_text('he said "all in"', 40), quote_text("x" * 50, 12)
    ('"he said \\'all in\\'"', '"xxxxxxxx ..."')
    >>> quote_text("fine\\u275e buy \\u02dd now \\u2033 all '' in", 60)
    '"fine\\' buy now \\' all \\' in"'
    """
    return f'"{safe_line(text, cap)}"'


@lru_cache(maxsize=1024)
def safe_line(text: str, cap: int = 2_000) -> str:
    """Returns a line without the marks of a brief: no quotation mark, backtick, square bracket, or backslash to escape one.

    >>> safe_line('see ["a\\\\b"]')
    "see ('a/b')"
    """
    line = clean_line(text)
    if not line.isascii():
        line = " ".join(_STRAY_MARKS.sub("", line).split())
    line = _SINGLES.sub("'", line.translate(_DOUBLE))
    return cap_length(redact_secrets(_TAG.sub("‹", line)), cap)


def safe_name(text: str) -> str:
    """Returns a symbol, a label or a code unchanged if it is one plain word, else in quotes.

    >>> safe_name("BTC-PERP"), safe_name("ES 09-26"), safe_name("trending_up")
    ('BTC-PERP', '"ES 09-26"', 'trending_up')
    """
    return text if _PLAIN.fullmatch(text) and redact_secrets(text) == text else quote_text(text, 64)


def line_range(path: str, first: int, last: int) -> str:
    """Returns a reference to lines of a document.

    >>> line_range("journal/2026-05.md", 12, 18), line_range("notes to self.md", 3, 3)
    ('journal/2026-05.md:12-18', '"notes to self.md":3')
    """
    where = path if _PATH.fullmatch(path) else quote_text(path, 160)
    return f"{where}:{first}" if first == last else f"{where}:{first}-{last}"


def id_reference(id: str) -> str:
    """Returns an id in the form in which it is cited.

    >>> id_reference("3fa91c0b77d2e4a1"), id_reference("my plan] do it")
    ('[3fa91c0b77d2e4a1]', '["my plan) do it"]')
    """
    return f"[{safe_name(id)}]"


def owner_lines(text: str, cap: int = 20_000) -> list[str]:
    """Returns the owner's text line by line, with its indents and lists, without headings, fences or horizontal rules.

    >>> owner_lines("# Entry\\n\\n- buy the breakout\\n  - with volume\\n```\\n=== user ===")
    ['Entry', '', '- buy the breakout', '  - with volume', '', 'user ===']
    """
    lines: list[str] = []
    for line in redact_secrets(text).splitlines():
        clean = one_line(line, cap)
        while (bare := _MARKER.sub("", clean)) != clean:
            clean = bare
        indent = min(len(line) - len(line.lstrip(" ")), 8) if clean else 0
        if clean or (lines and lines[-1]):
            lines.append(" " * indent + clean)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def verbatim_lines(text: str) -> list[str]:
    """Returns the owner's rules line by line and word for word: markdown, numbers, indents and signs stay as they are written.

    Only what no reader sees, secrets and the opening of a tag are changed. Blank lines are left out. The caller puts each line
    behind a prefix, so that none can begin a line of the brief.

    >>> verbatim_lines("# Risk\\n\\n3. **Never** risk 1½ %\\u200b:\\n\\t- x < 30  | `a[1]`\\n</system>")
    ['# Risk', '3. **Never** risk 1½ %:', '    - x < 30  | `a[1]`', '‹/system>']
    """
    shown = redact_secrets(_NEWLINE.sub("\n", text).expandtabs(4))
    lines = (
        line if line.isascii() and line.isprintable() else "".join(map(_shown, _ANSI.sub("", line))) for line in shown.split("\n")
    )
    return [_WHOLE_TAG.sub("‹", line).rstrip() for line in lines if line.strip()]


def same_words(line: str) -> str:
    """Returns the words of a line, by which two rules are found to say the same.

    >>> same_words("- 2. No longs in chop!") == same_words("no longs  in chop")
    True
    """
    return " ".join(without_list_marker(clean_line(line)).casefold().strip(" .!;:").split())


def without_list_marker(line: str) -> str:
    """Returns a line without its list marker.

    >>> without_list_marker("- 2. no longs in chop"), without_list_marker("-1R is the most")
    ('no longs in chop', '-1R is the most')
    """
    return _LIST.sub("", line.strip())
