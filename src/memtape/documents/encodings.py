"""The encoding of a text that does not state it: UTF-16 without a mark, Shift-JIS, GBK, Korean, else Western European.

Bytes that are not UTF-8 are decoded in each of these; the decoding whose characters are most like real text wins. Kana, Hangul
and frequent Chinese characters are common in real text and rare in what a wrong decoding makes of it.

>>> texts = {"shift_jis": "損切りのストップが近すぎた", "gbk": "黄金今天突破前高，我们没有止损", "euc_kr": "손절이 너무 가까웠다"}
>>> texts |= {"cp1252": "Überkauft, später fällt er", "utf-16-le": "gold fell\\n"}
>>> [detect_encoding(text.encode(name)) for name, text in texts.items()]
['cp932', 'gb18030', 'euc_kr', 'cp1252', 'utf-16-le']
>>> detect_encoding(bytes([0, 1, 2, 3])) is None
True
"""

from __future__ import annotations

import codecs

SAMPLE_BYTES = 65_536
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# Texts have next to none of these bytes in any of the encodings; one in twelve of a program, a picture or an archive is one.
_CONTROLS = tuple(bytes([code]) for code in range(1, 32) if code not in b"\b\t\n\v\f\r\x1a\x1b")
MAX_CONTROL_SHARE = 0.02
_CANDIDATES = ("cp1252", "cp932", "euc_jp", "gb18030", "euc_kr", "big5")
# The most frequent characters of Chinese and Japanese text, and those of markets.
_FREQUENT = frozenset(
    "的一是不了在人有我他这中大来上个国和也子时道说出而要于就下得可你年生自会那后能对着事其里所去行过家十用发天如然作方成者多日都三小军二无"
    "同么经法当起与好看学进种将还分此心前面又定见只主没公从今全期市价格金交易止损买卖涨跌盘仓量高低开收线行情风险回点位突破股票货币黄"
    "資本場値動取引買売利益損切円相株為替"
    "這個來們說時過發對會國經價漲跌買賣後東車長門間電気見合分部新社員問題"
)

# The most frequent syllables of Korean text, and those of markets. What Korean makes of Chinese bytes is other syllables, and
# ideographs among them, which Koreans hardly write any more.
_FREQUENT_HANGUL = frozenset(
    "이다는을가에고의하은지로도를한서사기그나어자아리인해대시일수정부상전보장주과있라제오여게들만스원조구비면였었으간적성동안모없세마공거됐경용금국"
    "방실선신입유치산무위미출반요된중행소문재화관데음술년니할까습당청연매손절익률격차트코롱숏환달러너무았않것때후오늘내"
)
_MARKS_OF_ASIA = "，。、！？；：「」（）《》"


def detect_encoding(content: bytes, *, is_whole: bool = True) -> str | None:
    """Returns the encoding of a text; None if it is no text. The content may be cut off anywhere unless it is the whole."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return encoding
    sample = content[:SAMPLE_BYTES]
    is_whole = is_whole and len(sample) == len(content)
    if b"\x00" in sample:
        return _utf_16(sample)
    if sum(map(sample.count, _CONTROLS)) > MAX_CONTROL_SHARE * len(sample):
        return None
    if _decode(content, "utf-8", is_whole=is_whole and len(content) <= SAMPLE_BYTES) is not None:
        try:
            content.decode() if is_whole else None
            return "utf-8"
        except UnicodeDecodeError:
            pass
    likeness = {name: _likeness(text) for name in _CANDIDATES if (text := _decode(sample, name, is_whole=is_whole)) is not None}
    # Western European decodes anything: what is left when nothing else fits.
    return max(likeness, key=lambda name: likeness[name]) if likeness else "cp1252"


def _decode(content: bytes, encoding: str, *, is_whole: bool) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(content, final=is_whole)
    except UnicodeDecodeError:
        return None


def _utf_16(sample: bytes) -> str | None:
    """Returns the byte order of UTF-16 without a mark; None if the bytes are no text at all."""
    even = sample[: len(sample) // 2 * 2]
    texts = {name: text for name in ("utf-16-le", "utf-16-be") if (text := _decode(even, name, is_whole=False))}
    shares = {name: sum(map(_is_usual, text)) / len(text) for name, text in texts.items()}
    best = max(shares, key=lambda name: shares[name], default=None)
    return best if best is not None and len(sample) >= 8 and shares[best] > 0.95 else None


def _is_usual(sign: str) -> bool:
    """Returns True for what texts consist of: spaces, ASCII, letters of Europe, kana, Hangul and frequent characters."""
    if sign in "\t\n\r" or " " <= sign <= "~" or sign in _FREQUENT:
        return True
    return sign.isprintable() and (sign.isalpha() or sign in "，。、！？；：“”「」（）《》…—–€£¥°")


def _likeness(text: str) -> float:
    """Returns how much the characters beyond ASCII are like real text: their mean, from -1 to 1."""
    points, count = 0.0, 0
    is_korean = any("\uac00" <= sign <= "\ud7a3" for sign in text)
    for before, sign, after in zip(f" {text}", text, f"{text[1:]} ", strict=False):
        if sign < "\x80":
            continue
        count += 1
        if "\uac00" <= sign <= "\ud7a3":
            points += 1 if sign in _FREQUENT_HANGUL else 0.4
        elif is_korean and "\u4e00" <= sign <= "\u9fff":
            points -= 1
        elif "\u3041" <= sign <= "\u30fe" or sign in _FREQUENT or sign in _MARKS_OF_ASIA:
            points += 1
        elif "\u4e00" <= sign <= "\u9fff":
            points += 0.2
        elif "\u00c0" <= sign <= "\u024f":
            # An accented letter stands in a word, not among others of its kind.
            points += 0.9 if _is_plain(before) or _is_plain(after) else -0.5
        elif sign in "–—‘’“”•…€£°±§«»½¼×·":
            points += 0.7
        else:
            points -= 1
    return points / count if count else 0.0


def _is_plain(sign: str) -> bool:
    return sign.isascii() and sign.isalpha()
