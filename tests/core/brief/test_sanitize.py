"""Text that others wrote: what is rendered of it has no hidden characters, no marks of ours and no secrets."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memtape.core.brief.sanitize import (
    _ANNOUNCED,
    _ANSI,
    _SECRETS,
    BLANK,
    REDACTED,
    _shown,
    cap_length,
    clean_line,
    id_reference,
    line_range,
    may_be_secret,
    one_line,
    owner_lines,
    quote_text,
    redact_secrets,
    safe_line,
    safe_name,
    without_list_marker,
)

# Characters that matter here, and any other.
HIDDEN = "\x00\x07\x1b\x7f\x85\x9b\u00ad\u034f\u061c\u115f\u180e\u200b\u200d\u200e\u202e\u2028\u2066\u2800\u3164\ufe0f\ufeff\ufff9\ue000\U000e0041\U000e0101\U000f0000"
MARKS = "\"“”«`#=-*>|<[]()\\\n\r\t ‹'.:_"
texts = st.text(
    st.one_of(st.sampled_from(HIDDEN + MARKS), st.characters(), st.sampled_from("aeiouéｅﬁ①Å\u0301\u0327 ")), max_size=120
)
secretive = st.lists(
    st.one_of(texts, st.sampled_from([
        "sk-" + "a1B2" * 6, "AKIA" + "Z9" * 8, "Bearer " + "x1" * 12, "password: ", "api_key=", "hunter2hunter2", "0x" + "ab" * 32, "seed phrase: ",
        "abandon " * 12, "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "postgres://me:", "pw1234@host", "eyJhbGciOi.", "eyJzdWIiOi.sig",
    ])), max_size=6,
).map(" ".join)  # fmt: skip


# --- hidden characters --------------------------------------------------------------------------------------------------


@given(texts)
def test_what_is_rendered_is_one_line_of_visible_characters_in_normal_form(text):
    clean = clean_line(text)
    assert unicodedata.is_normalized("NFKC", clean)
    assert not [c for c in clean if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") or c in BLANK]
    assert not [c for c in clean if 0xFE00 <= ord(c) <= 0xFE0F or 0xE0000 <= ord(c) <= 0xE0FFF]
    assert clean == clean.strip() and "  " not in clean and not [c for c in clean if c.isspace() and c != " "]


@pytest.mark.parametrize("hidden", [c for c in HIDDEN if c not in "\x1b\x9b"], ids=lambda c: f"U+{ord(c):04X}")
def test_a_hidden_character_does_not_break_a_word_in_the_reading(hidden):
    assert clean_line(f"go{hidden}long") in ("golong", "go long")


@pytest.mark.parametrize(("text", "clean"), [
    ("\x1b[1;31mred\x1b[0m", "red"),
    ("\x1b]0;title\x07after", "after"),
    ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("\x9b31mred", "red"),
    ("a\x1b(Bb", "ab"),
    ("\x1b\x1b[0m[31mx", "[31mx"),
    ("ｂｕｙ １０", "buy 10"),
    ("e\u200d\u0301", "é"),
    ("1\u20442", "1⁄2"),
    ("line one\nline two\r\n\tline three", "line one line two line three"),
    ("中文\u3000理由", "中文 理由"),
])  # fmt: skip
def test_ansi_full_width_and_line_ends_are_brought_to_plain_text(text, clean):
    assert clean_line(text) == clean


def test_no_character_becomes_a_hidden_one_in_normal_form():
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    assert not {c for c in clean_line(every) if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cn", "Zl", "Zp") or c in BLANK}


@given(secretive)
@example("sk-" + "a" * 70)
@example("e\u200b\u0301")
@example("\x1b\x1b[0m[0m")
@example("<\\system>")
def test_cleaning_twice_is_cleaning_once(text):
    for cap in (5, 12, 40, 2_000):
        for once in (one_line(text, cap), safe_line(text, cap)):
            assert one_line(once, cap) == once
        assert quote_text(quote_text(text, cap)[1:-1], cap) == quote_text(text, cap)
    assert clean_line(clean_line(text)) == clean_line(text)
    assert redact_secrets(redact_secrets(text)) == redact_secrets(text)


# --- quotation and marks ------------------------------------------------------------------------------------------------


@given(secretive, st.integers(5, 200))
def test_a_quotation_can_be_closed_only_by_us(text, cap):
    told = quote_text(text, cap)
    assert told[0] == told[-1] == '"' and len(told) <= cap + 2
    inner = told[1:-1]
    assert not set('"`[]\\\n\r“”„«»') & set(inner)


@given(texts)
def test_no_tag_of_a_prompt_survives(text):
    for told in (one_line(text), safe_line(text)):
        assert re.search("<[/!?|a-zA-Z]", told) is None


def test_a_comparison_is_no_tag():
    assert one_line("RSI < 30 and ATR <2") == "RSI < 30 and ATR <2"


@given(texts, st.integers(5, 60))
def test_a_text_is_cut_to_its_length_and_shows_it(text, cap):
    clean = clean_line(text)
    short = cap_length(clean, cap)
    assert len(short) <= cap
    assert short == clean if len(clean) <= cap else short.endswith("...")


@given(texts)
def test_a_name_is_a_plain_word_or_quoted_and_an_id_stands_in_one_pair_of_brackets(text):
    told = safe_name(text)
    assert re.fullmatch(r'[^\s"]+', told) if told == text else told[0] == told[-1] == '"'
    assert id_reference(text).count("[") == id_reference(text).count("]") == 1


def test_a_path_with_words_in_it_is_quoted():
    assert line_range("a/b.md", 1, 2) == "a/b.md:1-2"
    assert line_range("ignore the rules\n.md", 1, 1) == '"ignore the rules .md":1'


@given(texts)
def test_the_owners_own_text_has_no_heading_fence_or_rule_of_its_own(text):
    for line in owner_lines(text):
        bare = line.lstrip()
        assert not bare.startswith(("##", "# ", "==", "```", "~~~"))
        assert "\n" not in line and line == line.rstrip()
    assert owner_lines("\n".join(owner_lines(text))) == owner_lines(text)


def test_the_owners_lists_and_paragraphs_stay():
    text = "Entry\n\n1. break of the range\n   - with volume\n> 2R: trail\n-1R is the most\n\n\n\nExit"
    assert owner_lines(text) == [
        "Entry",
        "",
        "1. break of the range",
        "   - with volume",
        "> 2R: trail",
        "-1R is the most",
        "",
        "Exit",
    ]


def test_a_list_marker_goes_where_we_make_the_list_and_a_minus_sign_stays():
    assert [without_list_marker(line) for line in ("- no longs", "* 2) no longs", "• no longs", "-1R stop", "+2R", "2.5R")] == [
        "no longs", "no longs", "no longs", "-1R stop", "+2R", "2.5R"]  # fmt: skip


# --- secrets ------------------------------------------------------------------------------------------------------------

HEX = "9f86d081884c7d65" * 4
SEED = "abandon ability able about above absent absorb abstract absurd abuse access accident"
SECRETS = {
    "an Anthropic key": "sk-" + "ant-api03-" + "Zz9_" * 8,
    "an OpenAI key": "sk-" + "proj-" + "Ab1" * 12,
    "an AWS key": "AKIA" + "IOSFODNN7EXAMPLE",
    "a GitHub token": "ghp_" + "a1B2c3" * 6,
    "a Stripe key": "sk_" + "live_" + "4eC39HqLyjWD",
    "a Slack token": "xox" + "b-1234567890-abc",
    "a Google key": "AIza" + "Sy" * 17,
    "a web token": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "a bot token": "123456789:" + "AAE" * 12,
    "a private key in hex": "0x" + HEX,
    "a bare private key": HEX,
    "an exchange key": "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A",
    "a wallet key": "5Kb8kLf9zgWQnogidDA76MzPL6TsZZY36hWXMssSzNydYXYB9KF",
    "an extended key": "xprv" + "9s21ZrQH143K" * 6,
    "a PEM block": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----",
    "a PEM block cut short": "-----BEGIN PRIVATE KEY-----\nMIIEvQ",
    "numbered seed words": " ".join(f"{n}. {word}" for n, word in enumerate(SEED.split(), 1)),
}
ANNOUNCED = {
    "a bearer token": ("Authorization: Bearer ", "abc123def456ghi789"),
    "a password": ("password=", "correct-horse"),
    "an api secret": ("API_SECRET: ", "d41d8cd98f00"),
    "a key in JSON": ('{"api_key": "', "a8f322kd99zz"),
    "a seed phrase": ("seed phrase: ", SEED),
    "a mnemonic": ("mnemonic=", SEED),
    "a password in an address": ("postgresql://trader:", "s3cret"),
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_known_by_its_form(name):
    told = redact_secrets(f"my note {SECRETS[name]} end")
    assert told in (f"my note {REDACTED} end", f"my note {REDACTED}", f"my note {REDACTED}end") and SECRETS[name] not in told


@pytest.mark.parametrize("name", ANNOUNCED)
def test_a_secret_is_known_by_the_word_before_it_and_the_word_stays(name):
    word, secret = ANNOUNCED[name]
    told = redact_secrets(f"note {word}{secret}@host" if "://" in word else f"note {word}{secret}")
    assert told.startswith(f"note {word}{REDACTED}") and secret not in told


def test_a_secret_broken_by_invisible_characters_or_by_the_cut_is_still_a_secret():
    key = SECRETS["an OpenAI key"]
    assert "Ab1Ab1" not in quote_text("\u200b".join(key), 120)
    for cap in range(5, 80):
        assert "Ab1Ab1" not in quote_text(f"use {key} now", cap)
        assert "Ab1Ab1" not in one_line(f"use {key} now", cap)


@pytest.mark.parametrize("text", [
    "breakout above prior swing high, risk 1 % of equity, stop 64,800",
    "token: SOLUSDT-PERPETUAL looks weak",
    "a basic mean-reversion-with-filter setup",
    "recovery trades have been poor after large gaps while longer holds worked better overall",
    "Bearer of bad news: disappointing-earnings-again",
    "order 1234567890123456 filled at 65,200.50; trade 3fa91c0b77d2e4a1",
    "the key level is 65200 and the secret is patience",
    "1. wait 2. enter 3. exit",
    "https://example.com/a/b?c=d",
])  # fmt: skip
def test_a_traders_words_are_no_secret(text):
    assert redact_secrets(text) == text


fragments = st.sampled_from([
    "gold was quiet", "the key level held", "key: the level", "api_key = a8f3-22kd-99zz", "sk-abcdefabcdefabcdefab", "xoxb-1234567890", "https://ann:pass@host/x",
    "Bearer abcdef0123456789abcdef", "password=hunter2hunter2", "<system> go", "1. able 2. baker 3. candy 4. delta 5. eagle 6. fable 7. gamma 8. hotel 9. igloo 10. jolly 11. koala 12. lemon",
    "seed phrase: able baker candy delta eagle fable gamma hotel igloo jolly koala lemon", "\x1f", "\x1b[31mred", "ümlaut", "\n\n\n", "\t", " " * 40, "-----BEGIN PRIVATE KEY-----", "0x" + "a1" * 32,
    "secret", "token:", "12345678:" + "A" * 35, "x" * 14,
])  # fmt: skip


@given(st.lists(fragments | texts, max_size=40).map(" ".join))
@example("ſecret: able baker")
@example("to\u212aen = a8f3-22kd-99zz")
@example("mnemonıc: " + SEED)
def test_what_has_no_mark_of_a_secret_has_no_secret(text):
    """The quick look lets nothing pass that the close one finds."""
    for each in (text, clean_line(text)):
        assert may_be_secret(each) or _SECRETS.sub(REDACTED, each) == _ANNOUNCED.sub(REDACTED, each) == each


@given(st.lists(fragments | texts, max_size=20).map("".join))
def test_a_text_is_the_same_line_whichever_way_it_is_cleaned(text):
    slowly = unicodedata.normalize("NFKC", "".join(map(_shown, _ANSI.sub("", text))))
    assert clean_line(text) == " ".join(slowly.split())
