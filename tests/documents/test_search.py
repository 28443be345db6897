"""Finding what was written: by words, by meaning, by name; the same answer every time, and never none because a model is down."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.documents.age_decay import AgeDecay
from memtape.documents.bm25 import K1, B
from memtape.documents.citations import check_citation, cite
from memtape.documents.file_changes import path_words
from memtape.documents.filters import choose_documents
from memtape.documents.index import DocumentIndex
from memtape.documents.index_writer import Document
from memtape.documents.question import MAX_WORDS, choose_words, parse_question
from memtape.documents.result_caps import PassageCandidate, ResultCaps, pick_results
from memtape.documents.search import search_index
from memtape.documents.slots import SLOTS
from memtape.errors import Invalid
from memtape.plugs.embedder import StaticEmbedder
from tests.documents.desk import NOON, Letters, put

WORDS = [
    "gold",
    "silver",
    "btc",
    "eth",
    "breakout",
    "fade",
    "stop",
    "target",
    "trend",
    "range",
    "news",
    "fomc",
    "spread",
    "slippage",
    "entry",
    "exit",
    "late",
    "early",
    "size",
    "risk",
    "loss",
    "win",
    "level",
    "session",
    "london",
]


@pytest.fixture
def index():
    made = DocumentIndex(":memory:")
    yield made
    made.close()


def ask(index, question, **more):
    return search_index(index, question, owner="ann", agent="gold", **more)


def paths(index, question, **more):
    return [hit.path for hit in ask(index, question, **more).hits]


def journal(count, seed=7, words=WORDS):
    chance = random.Random(seed)
    return {f"journal/{n:05}.md": f"# Note {n}\n" + " ".join(chance.choices(words, k=30)) for n in range(count)}


# --- by words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize("question, right", [
    ("why did the gold loss grow after the stop was moved?", "moved.md"), ("gold stop moved", "moved.md"), ("gold around the payrolls", "payrolls.md"),
    ("gold spread at the open", "spread.md"), ("did gold slip", "slip.md"), ("XAUUSD lesson", "lesson.md"),
])  # fmt: skip
def test_a_question_finds_the_note_that_answers_it_among_forty_on_one_symbol(index, slot, question, right):
    """Every note is on gold: the word that all have must not decide anything."""
    notes = {f"{n}.md": f"Gold (XAUUSD) on day {n}: price drifted, gold held the level, no gold trade." for n in range(35)}
    notes |= {
        "moved.md": "Gold XAUUSD: the stop was moved away from the range and the loss grew.", "payrolls.md": "Gold XAUUSD stood still before payrolls.",
        "spread.md": "Gold XAUUSD: the spread was four times as wide at the open.", "slip.md": "Gold XAUUSD: the exit slipped by 1.2 dollars.",
        "lesson.md": "Lesson of the week on XAUUSD: no gold trade is a trade too.",
    }  # fmt: skip
    put(index, notes, embedder=StaticEmbedder())
    assert paths(index, question, slot=slot, embedder=StaticEmbedder())[0] == right
    assert len(paths(index, "gold", limit=50, slot=slot, embedder=StaticEmbedder())) == 40


def test_passages_rank_by_bm25_whether_they_are_in_one_table_or_two(index):
    """The textbook formula over all passages, the agent's and the shared ones, as if they were in one table."""
    notes = journal(150)
    put(index, notes)
    shared = journal(60, seed=3)
    index.put("ann", "", [Document(f"shared/{path}", "playbook", 1, text) for path, text in shared.items()], now=NOON)
    texts = notes | {f"shared/{path}": text for path, text in shared.items()}
    words = {path: text.lower().replace("#", "").split() for path, text in texts.items()}
    average = sum(map(len, words.values())) / len(words)
    for question in ("spread", "slippage"):
        having = sum(question in each for each in words.values())
        weight = math.log(1 + (len(words) - having + 0.5) / (having + 0.5))
        score = {}
        for path, each in words.items():
            count = each.count(question)
            score[path] = weight * count * (K1 + 1) / (count + K1 * (1 - B + B * len(each) / average))
        hits = ask(index, question, limit=10).hits
        expected = sorted((-round(value / max(score.values()), 9), path) for path, value in score.items() if value)[:10]
        assert [hit.path for hit in hits] == [path for _, path in expected]
        assert {hit.shared for hit in ask(index, question, limit=50).hits} == {True, False}


def test_the_type_asked_for_is_found_behind_any_number_of_others(index):
    put(index, {f"{n}.md": "gold stop gold stop" for n in range(300)}, embedder=Letters())
    put(
        index,
        {"SOUL.md": "Never move a stop; this is said here at some length, and of gold only once."},
        type="rules",
        tier=1,
        embedder=Letters(),
    )
    for slot in SLOTS:
        assert paths(index, "gold stop", types=["rules"], slot=slot, embedder=Letters()) == ["SOUL.md"]


def test_a_note_with_both_words_comes_before_notes_with_one(index):
    put(index, {**{f"a{n}.md": "gold moved in a range all day long" for n in range(15)},
                **{f"b{n}.md": "the spread was wide all day long here" for n in range(15)}, "both.md": "the spread of gold was wide that day"})  # fmt: skip
    assert paths(index, "gold spread")[0] == "both.md"


def test_a_word_is_found_in_its_other_forms(index):
    put(index, {"a.md": "trailing stops were hit", "b.md": "nothing happened"})
    assert paths(index, "trailed stop hitting") == ["a.md"]


def test_a_hit_can_be_cited_and_the_citation_holds(index):
    text = "# Manual\n\n## Risk\nNever risk more than 1 %.\n"
    put(index, {"TRADING_MANUAL.md": text}, type="rules", tier=1)
    (hit,) = ask(index, "how much may I risk").hits
    cited = cite(hit.path, text, hit.start_line, hit.end_line)
    assert cited.content_hash == hit.content_hash and check_citation(cited, text).verdict == "valid"


def test_the_snippet_shows_the_matching_part_and_no_secret(index):
    put(index, {"a.md": "# Log\n" + "quiet day\n" * 80 + "disconnected: api_key=abcd1234efgh5678 was refused\n"})
    (hit,) = ask(index, "why was the key refused?").hits
    assert "refused" in hit.snippet and "abcd1234" not in hit.snippet and "\n" not in hit.snippet


@pytest.mark.parametrize("question", ["", "   ", "?!", '"', "()", "*", '"" OR ""', "\x00"])
def test_a_question_without_a_word_finds_nothing(index, question):
    put(index, {"a.md": "gold"})
    assert ask(index, question).hits == ()


@given(st.text(max_size=60))
def test_no_question_breaks_the_search(question):
    made = DocumentIndex(":memory:")
    put(made, {"a.md": "gold broke out", "b.md": "黄金突破前高"})
    ask(made, question)
    ask(made, question, slot="hybrid_embeddings", embedder=Letters())
    made.close()


@pytest.mark.parametrize(
    "question", ["AND OR NOT", "gold NEAR stop", "head: gold", "gold*", "-gold", "col : gold", 'gold" OR "x', "^gold"]
)
def test_what_looks_like_a_query_language_is_only_words(index, question):
    put(index, {"a.md": "gold"})
    if "gold" in question:
        assert paths(index, question) == ["a.md"]
    else:
        assert ask(index, question).hits == ()


def test_of_a_long_question_the_rarest_words_are_kept_and_repeated_ones_count_for_more():
    asked = parse_question(" ".join(f"word{n}" for n in range(40)) + " word39 word39")
    kept = choose_words(asked, lambda word: word, lambda stem: int(stem[4:]) + 1)
    assert len(kept) == MAX_WORDS
    assert {word for word, _ in kept} == {f"word{n}" for n in range(MAX_WORDS - 1)} | {"word39"}


@pytest.mark.parametrize(
    "question, found",
    [("突破前高", "zh.md"), ("前高", "zh.md"), ("ストップ", "ja.md"), ("손절", "ko.md"), ("BTC 突破", "zh.md"), ("金", "zh.md")],
)
def test_chinese_japanese_and_korean_are_found_though_they_have_no_spaces(index, question, found):
    put(
        index,
        {
            "zh.md": "黄金今日突破前高后回落",
            "ja.md": "損切りのストップが近すぎた",
            "ko.md": "손절이 너무 가까웠다",
            "en.md": "gold broke the prior high",
        },
    )
    assert paths(index, question)[0] == found


def test_a_few_characters_do_not_crowd_out_the_words_of_a_long_question():
    question = "monitor dividend portfolios with forced review triggers and convert anomalies into states without selling periodic checks 配当安全性モニタリング自動化"
    kept = [
        word
        for word, _ in choose_words(parse_question(question), lambda word: word, lambda stem: 1 if ord(stem[0]) > 255 else 50)
    ]
    assert len(kept) == MAX_WORDS and sum(word.isascii() for word in kept) == 13


# --- by name ------------------------------------------------------------------------------------------------------------

CROWD = "why the stop target risk entry exit level session of {} was late in the london range after news and slippage"


@pytest.fixture(scope="module")
def ten_thousand():
    """10,000 notes; one has a ticker, one a rule id, one an error code, one a phrase, each among words that the question shares with many."""
    made = DocumentIndex(":memory:")
    notes = journal(9_996)
    notes |= {
        "ticker.md": "# Note\nPLTR was skipped. " + "filler words about nothing in particular " * 30,
        "rule.md": "# Note\nBroke R-17 again. " + "filler words about nothing in particular " * 30,
        "error.md": "# Note\nThe broker said ERR_4031. " + "filler words about nothing in particular " * 30,
        "phrase.md": "# Note\nI was simply not paying attention. " + "filler words about nothing in particular " * 30,
    }
    put(made, notes, embedder=StaticEmbedder())
    yield made
    made.close()


@pytest.mark.parametrize(
    "name, note",
    [
        ("PLTR", "ticker.md"),
        ("$pltr", "ticker.md"),
        ("R-17", "rule.md"),
        ("ERR_4031", "error.md"),
        ('"not paying attention"', "phrase.md"),
    ],
)
@pytest.mark.parametrize("embedder", ["off", "on", "broken"])
def test_a_name_that_one_note_of_ten_thousand_has_is_among_the_first_three(ten_thousand, name, note, embedder):
    slot = "sqlite_fts" if embedder == "off" else "hybrid_embeddings"
    model = StaticEmbedder() if embedder == "on" else Letters(broken=True) if embedder == "broken" else None
    hits = ask(ten_thousand, CROWD.format(name), slot=slot, embedder=model).hits
    assert note in [hit.path for hit in hits[:3]]
    assert next(hit for hit in hits if hit.path == note).source == "exact"
    assert ask(ten_thousand, name, slot=slot, embedder=model, limit=3).hits[0].path == note


def test_a_longer_code_is_not_taken_for_the_one_that_was_asked_for(index):
    put(index, {"a.md": "rule R-171 was broken", "b.md": "rule R-17 was broken", "c.md": "rule R 17th was broken"})
    assert [hit.path for hit in ask(index, "R-17").hits if hit.source == "exact"] == ["b.md"]


@pytest.mark.parametrize("question, note", [
    ('what was said on "never again"', "phrase.md"), ("does Rule 16 allow adding to gold?", "rule.md"), ("gold stop after L47", "lesson.md"),
    ("which gold stop rule is R-17?", "id.md"), ("gold stop and HTTP 451", "error.md"), ("gold stop for PLTR", "ticker.md"), ("gold stop in RISK-NOTES.md", "notes/RISK-NOTES.md"),
])  # fmt: skip
@pytest.mark.parametrize("slot", SLOTS)
def test_a_note_that_has_the_named_thing_comes_before_notes_that_only_share_words(index, slot, question, note):
    """The decoys have every other word of the question more often, in shorter notes, and the parts of the name apart."""
    filler = " The day was quiet and the desk waited for the close of the market before it wrote this down." * 8
    put(index, {
        "phrase.md": f"He said never again.{filler}", "rule.md": f"Rule 16 is for adding.{filler}", "lesson.md": f"See L47.{filler}",
        "id.md": f"R17 was broken.{filler}", "error.md": f"The venue gave HTTP 451.{filler}", "ticker.md": f"PLTR was cut.{filler}",
        **{f"decoy{n}.md": f"gold stop again: rule for adding to gold, never stop gold; rule 1 of {16 + n}0, L4 7, R 1 7, pltr-like {n}" for n in range(9)},
    }, embedder=StaticEmbedder())  # fmt: skip
    file = Document("notes/RISK-NOTES.md", "note", 3, f"What we know of danger.{filler}", path_words("notes/RISK-NOTES.md"))
    index.put("ann", "gold", [file], now=NOON, embedder=StaticEmbedder())
    assert paths(index, question, slot=slot, embedder=StaticEmbedder())[0] == note


def test_a_name_in_a_page_long_description_does_not_move_a_passing_mention_to_the_front(index):
    about = "earnings gap reaction volume drift surprise guidance revision momentum liquidity spread turnover sector breadth"
    question = f"{about} score by {' '.join(f'factor{n}' for n in range(20))} such as TSLA"
    put(index, {"answer.md": about, "passing.md": "An order of TSLA was filled.", **{f"{n}.md": "Quiet day." for n in range(9)}})
    assert paths(index, question)[0] == "answer.md"
    assert paths(index, "earnings gap reaction of TSLA")[0] == "passing.md"


def test_a_file_and_a_rule_that_are_named_are_found_among_hundreds_of_notes_with_the_same_words(index):
    day = "The lesson of the day: rule broken at {}:16, 16 trades, a lesson on the spread. "
    put(index, {
        "memory/LESSONS.md": "# Lessons\n\n- L1: wait." + " filler" * 90, "RULES.md": "# Rules\n\n15. No news.\n16. Half size." + " filler" * 90,
        **{f"journal/{n}.md": day.format(n) for n in range(300)},
    })  # fmt: skip
    assert paths(index, "what does LESSONS.md say of the lesson on the spread")[0] == "memory/LESSONS.md"
    assert paths(index, "which lesson of the day broke rule 16")[0] == "RULES.md"


def test_a_dollar_says_that_capitals_are_a_ticker(index):
    put(
        index,
        {"errand.md": "I went to the shop; the shop was closed, shop shop.", "ticker.md": "We bought SHOP at 61 after the gap."},
    )
    assert paths(index, "$SHOP")[0] == "ticker.md"


@pytest.mark.parametrize("question", [
    "the broker is REQUIRED to confirm every amended stop order", "parse the XML answer of the broker to an amended stop order",
    "confirm an amended stop order: returns ``None`` or ``True`` of the broker",
])  # fmt: skip
def test_emphasis_and_technical_terms_of_a_sentence_are_no_names(index, question):
    stray = "REQUIRED XML None or True. " + "filler about nothing in particular " * 5
    put(index, {"stray.md": stray, "answer.md": "The broker confirms every amended stop order.", "other.md": "Gold fell."})
    assert paths(index, question)[0] == "answer.md"


def test_a_word_in_capitals_is_a_name_if_hardly_anything_else_is_asked(index):
    filler = "gold stop gold stop gold stop. " * 5
    put(
        index,
        {"grid.md": "GRIDTRADER was stopped." + " filler" * 60, "b.md": filler, "c.md": filler + "Again.", "gridtrader.txt": "x"},
    )
    assert paths(index, "why stop GRIDTRADER gold?")[0] in ("grid.md", "gridtrader.txt")


def test_a_passage_of_a_document_about_the_question_comes_before_the_same_words_in_a_document_about_other_things(index):
    """Both have the sentence in their first passage; only one speaks of the Kestrel, far below."""
    filler = "\n\n".join(
        f"Paragraph {n}: {'the desk waited for the close of the market and wrote it down. ' * 6}" for n in range(9)
    )
    note = "# Note\n\nThe filter cut the winners.\n\n## More\n\n{}\n\n## Last\n\nNothing but {}."
    put(index, {"aside.md": note.format(filler, "rain"), "kestrel.md": note.format(filler, "the Kestrel")})
    first = [hit.path for hit in ask(index, "kestrel filter cut winners").hits if "cut the winners" in hit.snippet]
    assert first == ["kestrel.md", "aside.md"]


def test_why_something_was_stopped_is_found_in_its_own_words_and_not_in_a_decoy(index):
    put(index, {
        "answer.md": "We stopped using the Kestrel filter: it cut the winners too.", "decoy.md": "Drop or disable what does not pay. Drop it, disable it.",
        "other.md": "The Kestrel filter has three settings.", **{f"{n}.md": f"The stop was moved on day {n}." for n in range(20)},
    })  # fmt: skip
    assert paths(index, "why did we stop using the Kestrel filter?")[0] == "answer.md"


def test_what_was_dropped_is_found_although_the_question_says_stopped(index):
    put(index, {"drop.md": "Dropped the Kestrel filter: it cut the winners too.", "other.md": "Set up the Kestrel filter: it has three settings.",
                **{f"{n}.md": f"The stop was moved on day {n}, using the old level." for n in range(20)}})  # fmt: skip
    assert paths(index, "why did we stop using the Kestrel filter?")[0] == "drop.md"


ASKED_OF_THE_GRID = (
    "why did we stop using the grid", "Why did we drop the grid?", "why was the grid retired?", "why don't we use the grid any more?",
    "why is the grid no longer used?", "what made us give up the grid?", "when did we get rid of the grid, and why?",
)  # fmt: skip


@pytest.mark.parametrize("question", ASKED_OF_THE_GRID)
@pytest.mark.parametrize(
    "answer",
    [
        "Grid: dropped. It bled in trends.", "# Grid\n\nRetired on 12 May: it bled in trends.", "We stopped using the grid. It bled.",
        "The grid is disabled since 4 August.", "- ladder: kept\n- grid: abandoned, it bled\n- wheel: kept", "# Grid\n\nWe switched it off.",
        "Decision: we do not trade the grid any more.", "We no longer run the grid.", "Grid bot: banned by the owner, it bled.",
    ],
)  # fmt: skip
def test_why_a_strategy_was_given_up_is_answered_by_the_note_that_says_so(index, question, answer):
    put(index, {
        "answer.md": answer, "use.md": "We use the grid bot on BTC. Using the grid again next week: why did we stop at all?",
        "order.md": "Stop using stops on the grid. We did use the grid with stops.", "plan.md": "The grid works. Use the grid, keep using the grid.",
        "ladder.md": "The ladder was dropped, the grid kept. Why drop the grid?",
        "kept.md": "The grid was not dropped. Nobody stopped using the grid? We never retired the grid.", "tight.md": "The grid was stopped out at 3 %.",
        **{f"{n}.md": f"Day {n}: the stop was moved, using the old level. The ladder was dropped." for n in range(20)},
    })  # fmt: skip
    assert paths(index, question)[0] == "answer.md"


def test_a_fall_in_price_is_not_something_that_was_given_up(index):
    put(
        index,
        {
            "fell.md": "Gold dropped 3 % after the Fed, real yields rose.",
            "off.md": "Gold: dropped from the list.",
            "c.md": "Rain.",
        },
    )
    assert paths(index, "why did gold drop after the Fed?")[0] == "fell.md"


def test_the_note_that_gives_the_reason_comes_before_one_that_only_names_the_change(index):
    put(index, {"what.md": "Kestrel filter: off since May, and the desk wrote it down.", "why.md": "Kestrel filter: off since May because it cut the winners.",
                **{f"{n}.md": f"The stop was moved on day {n}." for n in range(20)}})  # fmt: skip
    assert paths(index, "why is the Kestrel filter off?")[0] == "why.md"


def test_a_sale_is_found_although_the_question_says_sell(index):
    put(index, {"sold.md": "MSTV: sold all of it, the customer took the work in-house.", "held.md": "MSTV: twelve figures of the quarter were as expected.",
                **{f"{n}.md": f"A quiet day {n}." for n in range(20)}})  # fmt: skip
    assert paths(index, "why did we sell MSTV?")[0] == "sold.md"


def test_rule_16_is_found_where_the_rules_are_a_numbered_list(index):
    """The rule itself has none of the question's words beside its number; the journal has all of them every day."""
    rules = "# Rules\n\n" + "\n".join(
        f"{n}. {each}" for n, each in enumerate(["No chasing."] * 15 + ["Flat before the release."], 1)
    )
    notes = {f"journal/{n}.md": f"Checked rule {n} and rule {n + 1} today." for n in range(20, 40)}
    put(
        index,
        {
            "RULES.md": rules,
            "steps.md": "# Morning\n\n16. Open the book.",
            "broken.md": "We broke Rule 16, then rule 16 was read aloud.",
            **notes,
        },
    )
    assert set(paths(index, "what does Rule 16 say?")[:2]) == {"RULES.md", "broken.md"}
    assert paths(index, "Rule 16")[0] == "RULES.md"


def test_the_entry_that_says_what_a_code_means_comes_before_notes_that_mention_it(index):
    put(index, {"codes.md": "# Codes\n\n| code | meaning |\n|---|---|\n| DV-2231 | estimates arrive late |\n| DV-2188 | splits twice |" + "\nFiller of the table." * 20,
                "meeting.md": "DV-2231 again.", "talk.md": "Talked of DV-2231 and of DV-2231."} | {f"{n}.md": f"A quiet day {n}." for n in range(20)})  # fmt: skip
    put(index, {"meeting.md": "The vendor was late again (DV-2231)."})
    assert paths(index, "DV-2231")[0] == "codes.md"


def test_a_range_of_years_names_nothing(index):
    put(index, {"aside.md": "Table of 2020-2022.", "answer.md": "The recovery of 2020 to 2022 was promoted: the recovery held.",
                **{f"{n}.md": f"A quiet day {n}." for n in range(20)}})  # fmt: skip
    assert paths(index, "why was the 2020-2022 recovery promoted?")[0] == "answer.md"


def test_a_note_is_found_by_the_month_of_its_date(index):
    text = "Sold at the fix by mistake of the scheduler."
    for path in ("notes/2026-04-30.md", "notes/2026-05-29.md"):
        index.put("ann", "gold", [Document(path, "note", 3, text + " " + path, path_words(path))], now=NOON)
    assert paths(index, "the mistake at the fix in April")[0] == "notes/2026-04-30.md"
    assert paths(index, "the mistake at the fix in May")[0] == "notes/2026-05-29.md"


def test_a_heading_inside_a_passage_counts_beside_the_text(index):
    parts = "# Review\n\n## {}\n\nIt went as the desk had hoped.\n\n## Next\n\nMore of {} tomorrow."
    put(
        index,
        {
            "about.md": parts.format("Kestrel exits", "it"),
            "aside.md": parts.format("Orders", "the Kestrel exits"),
            **{f"{n}.md": f"A quiet day {n}." for n in range(20)},
        },
    )
    assert paths(index, "Kestrel exits")[0] == "about.md"


def test_a_checklist_filled_in_every_day_takes_one_place_and_the_rest_come_behind(index):
    checklist = (
        "# {}\nChecklist gold: spread below two points, no release within the hour, risk under one percent, stop set.\nDone {}."
    )
    notes = {f"journal/{n:02}.md": checklist.format(n, n) for n in range(40)}
    put(
        index,
        {
            **notes,
            "why.md": "The gold spread was too wide at the release, so the stop was hit. "
            + "Nothing else happened that day. " * 9,
        },
    )
    hits = paths(index, "gold spread at the release")
    assert "why.md" in hits[:2] and len(hits) == 10
    assert hits[:3] == paths(index, "gold spread at the release", limit=3)


def test_a_search_can_be_restricted_to_a_folder_and_to_days(index):
    put(index, {f"journal/2026-05-{day:02}.md": f"gold on day {day}" for day in range(1, 11)} | {"notes/a.md": "gold"})
    days = choose_documents(path="journal", since=datetime(2026, 5, 4, tzinfo=UTC), until=datetime(2026, 5, 5, 23, tzinfo=UTC))
    assert sorted(paths(index, "gold", only=days)) == ["journal/2026-05-04.md", "journal/2026-05-05.md"]
    assert paths(index, "gold", only=choose_documents(path="notes/*.md")) == ["notes/a.md"]


def test_old_journal_entries_lose_by_age_if_that_is_asked_for_and_rules_never(index):
    put(
        index,
        {"journal/2020-01-01.md": "gold gold gold stop", "journal/2026-05-11.md": "a gold day with many other things to say"},
        type="journal",
    )
    put(index, {"2019-01-01-RULES.md": "gold gold stop, and then more words here"}, type="rules", tier=1)
    assert paths(index, "gold stop")[-1] == "journal/2026-05-11.md"
    assert paths(index, "gold stop", decay=AgeDecay(NOON, 30)) == [
        "2019-01-01-RULES.md",
        "journal/2026-05-11.md",
        "journal/2020-01-01.md",
    ]


# --- by meaning ---------------------------------------------------------------------------------------------------------


def test_a_note_that_shares_no_word_with_the_question_is_found_by_its_meaning(index):
    put(
        index,
        {"a.md": "got shaken out by noise", "b.md": "funding rates flipped negative", "c.md": "broker opened a new office"},
        embedder=StaticEmbedder(),
    )
    assert paths(index, "stop loss too tight") == []
    told = ask(index, "perpetual swap carry became costly", slot="hybrid_embeddings", embedder=StaticEmbedder())
    assert told.hits[0].path == "b.md" and told.hits[0].source == "vector" and told.hits[0].reason.startswith("meaning: 1st")


@pytest.mark.parametrize("fusion", ["weighted", "reciprocal"])
def test_both_ways_of_putting_words_and_meaning_together_find_what_both_find_first(index, fusion):
    put(index, {**journal(200), "right.md": "# Outage\nthe venue was down and orders were rejected"}, embedder=StaticEmbedder())
    told = ask(
        index, "orders rejected during an exchange outage", slot="hybrid_embeddings", embedder=StaticEmbedder(), fusion=fusion
    )
    assert told.hits[0].path == "right.md" and told.hits[0].source == "both" and 0 < told.hits[0].score <= 1


def test_a_broken_embedder_costs_nothing_but_itself_and_the_answer_says_so(index):
    put(index, journal(50), embedder=Letters())
    plain = ask(index, "gold breakout")
    told = ask(index, "gold breakout", slot="hybrid_embeddings", embedder=Letters(broken=True))
    assert told.hits == plain.hits and told.slot == "sqlite_fts" and "connection refused" in told.note
    assert "no embedder" in ask(index, "gold", slot="hybrid_embeddings").note


def test_a_model_that_answers_in_another_form_is_not_used(index):
    put(index, journal(5), embedder=Letters())
    model = Letters()
    model.dim = 30
    real = model.embed
    model.embed = lambda texts: real(texts)[:, :3]
    assert "another form" in ask(index, "gold", slot="hybrid_embeddings", embedder=model).note


# --- places -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slot", SLOTS)
def test_the_first_hits_do_not_depend_on_how_many_are_asked_for(index, slot):
    put(index, {**journal(300), "x.md": "PLTR gold stop"}, embedder=Letters())
    put(index, {f"web/{n}.md": "gold stop breakout news" for n in range(3)}, type="external", tier=4, embedder=Letters())
    for question in ("gold breakout stop", "PLTR gold late", "fomc slippage"):
        most = ask(index, question, slot=slot, embedder=Letters(), limit=100).hits
        for limit in (1, 2, 3, 5, 10, 30):
            assert ask(index, question, slot=slot, embedder=Letters(), limit=limit).hits == most[:limit]


@pytest.mark.parametrize("slot", SLOTS)
def test_the_same_documents_give_the_same_answer_in_whatever_order_they_came(slot):
    notes = {**journal(60), **{f"twin{n}.md": "# Note\ngold breakout" for n in range(5)}}
    told = []
    for order in (list(notes), sorted(notes, reverse=True)):
        made = DocumentIndex(":memory:")
        put(made, {path: notes[path] for path in order[:40]}, embedder=Letters())
        put(made, {path: notes[path] for path in order[40:]}, embedder=Letters())
        told.append(ask(made, "gold breakout", slot=slot, embedder=Letters(), limit=50).hits)
        made.close()
    assert told[0] == told[1]
    assert [hit.path for hit in told[0] if hit.path.startswith("twin")] == [f"twin{n}.md" for n in range(5)]


def test_one_text_from_outside_holds_no_more_than_four_of_ten_places(index):
    page = "\n".join(f"## Part {n}\n" + "buy gold now, gold only goes up. " * 16 for n in range(12))
    put(index, {"web/pump.md": page}, type="external", tier=4)
    put(index, {f"journal/{n}.md": f"day {n}: gold was quiet and nothing came of it" for n in range(20)})
    hits = paths(index, "buy gold now")
    assert hits[0] == "web/pump.md"
    for k in range(1, 11):
        assert hits[:k].count("web/pump.md") <= max(1, 0.4 * k)


def test_transcripts_give_way_to_notes_while_there_are_any(index):
    put(index, {f"runs/{n}.jsonl": '{"said": "gold breakout gold breakout"}' for n in range(20)}, type="transcript")
    put(index, {f"journal/{n}.md": f"gold, a quiet day {n}" for n in range(3)})
    hits = ask(index, "gold breakout").hits
    assert sum(hit.source_type == "transcript" for hit in hits[:5]) == 2 and len(hits) == 10


def test_a_journal_in_one_file_may_fill_the_list(index):
    put(
        index,
        {"memory/TRADE-LOG.md": "\n".join(f"## Trade {n}\n" + f"gold trade {n} was stopped out. " * 16 for n in range(12))},
        type="log",
    )
    assert paths(index, "gold stopped", limit=10) == ["memory/TRADE-LOG.md"] * 10


seats = st.lists(
    st.builds(
        PassageCandidate,
        st.integers(0, 99),
        st.sampled_from("abcd"),
        st.sampled_from(["note", "transcript"]),
        st.sampled_from([1, 3, 4]),
    ),
    max_size=15,
    unique_by=lambda seat: seat.chunk,
)


@given(seats)
def test_places_are_prefix_stable_and_hold_their_caps(ranked):
    most = pick_results(ranked, 15)
    for k in range(len(most) + 1):
        assert pick_results(ranked, k) == most[:k]
        for path in "abcd":
            assert sum(seat.path == path and seat.tier == 4 for seat in most[:k]) <= max(1, int(0.4 * k + 1e-9)) or any(
                seat.path == path and seat.tier != 4 for seat in most[:k]
            )
    if not any(seat.tier == 4 for seat in ranked):
        assert sorted(most, key=lambda seat: seat.chunk) == sorted(ranked, key=lambda seat: seat.chunk)


def test_caps_can_be_set(index):
    put(index, {"a.md": "\n".join(f"## {n}\n" + "gold " * 130 for n in range(6)), "b.md": "gold"})
    assert paths(index, "gold", caps=ResultCaps(document={3: 0.5}, type={}), limit=4).count("a.md") <= 2


def test_weak_hits_can_be_left_out(index):
    put(index, {"a.md": "gold breakout stop", "b.md": "a long text about other things which names gold once " * 3})
    assert paths(index, "gold breakout stop") == ["a.md", "b.md"]
    assert paths(index, "gold breakout stop", minimum=0.5) == ["a.md"]


def test_only_the_types_asked_for_are_found(index):
    put(index, {"a.md": "gold"}, type="rules", tier=1)
    put(index, {"b.md": "gold"}, type="journal")
    assert paths(index, "gold", types=["rules"]) == ["a.md"]


@pytest.mark.parametrize("wrong", [{"slot": "pgvector"}, {"fusion": "best"}, {"limit": 0}, {"limit": 101}])
def test_what_does_not_exist_is_refused_by_name(index, wrong):
    with pytest.raises(Invalid, match=next(iter(wrong))):
        ask(index, "gold", **wrong)


def test_an_agent_without_documents_finds_nothing(index):
    assert ask(index, "gold").hits == ()
    assert ask(index, "gold", slot="hybrid_embeddings", embedder=Letters()).hits == ()


def test_an_emptied_document_is_there_but_finds_nothing(index):
    index.put("ann", "gold", [Document("a.md", "note", 3, "")], now=NOON)
    assert index.health("ann", "gold").documents == 1 and ask(index, "a").hits == ()


@pytest.mark.parametrize("slot", SLOTS)
def test_thousands_of_decisions_do_not_drown_the_one_page_of_the_manual(slot):
    index = DocumentIndex(":memory:")
    decided = [
        Document(f"@decisions/{n}.md", "trace", 3, f"# Decisions\nBreakout of gold, strategy breakout, rules kept, {n}.")
        for n in range(1500)
    ]
    manual = Document(
        "TRADING_MANUAL.md", "rules", 1, "# Manual\n\nRules of the breakout: wait for the close.\n" + "Patience pays.\n" * 30
    )
    index.put("ann", "gold", [*decided, manual], now=NOON, embedder=StaticEmbedder())
    hits = search_index(index, "breakout rules", owner="ann", agent="gold", slot=slot, embedder=StaticEmbedder()).hits
    assert "TRADING_MANUAL.md" in [hit.path for hit in hits[:3]] and any(hit.path.startswith("@") for hit in hits)
    index.close()
