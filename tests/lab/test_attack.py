"""Sixty attacks on small stores. All of them, and the large store, are in tests/soak/test_attack_soak.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from memtape.errors import Invalid
from memtape.lab.attack.cases import AttackCall, texts_of
from memtape.lab.attack.desks import DESKS, ask_owner, open_desk, prepare_desk
from memtape.lab.attack.doors import carry_out
from memtape.lab.attack.fixed_cases import fixed_cases
from memtape.lab.attack.generator import attack_cases
from memtape.lab.attack.gullible_agent import decide_by_brief
from memtape.lab.attack.phrases import DISGUISES, INSTRUCTIONS
from memtape.lab.attack.report import TABLE_BEGINS, TABLE_ENDS, attack_report, write_table
from memtape.lab.attack.suite import DEFAULT_CASES, DEFAULT_SEED, AttackSuite
from memtape.lab.attack.text_fields import TEXT_FIELDS

SMALL_DESKS = ("empty", "hundred", "claims")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackSuite]:
    yield AttackSuite(tmp_path_factory.mktemp("attack"))


# Ten parts, so that two processes share the work.
@pytest.mark.parametrize("part", range(10))
def test_sixty_attacks_change_nothing_that_counts(suite: AttackSuite, part: int) -> None:
    cases = attack_cases(60, DEFAULT_SEED)[part::10]
    results = [suite.run(case, DESKS[SMALL_DESKS[(part + n) % 3]], without_gates=False) for n, case in enumerate(cases)]
    report = attack_report(results, len(cases), DEFAULT_SEED)
    assert report["found"] == []
    assert sum(each.recorded + each.refused for each in results) >= len(cases)


def test_the_same_attacks_flip_the_agent_when_the_gates_are_off(suite: AttackSuite) -> None:
    cases = attack_cases(60, DEFAULT_SEED)[::6]
    results = [suite.run(case, DESKS["hundred"]) for case in cases]
    assert sum(bool(each.flipped_without_gates) for each in results) >= 8


def test_the_whole_suite_has_more_than_500_attacks_and_leaves_no_field_language_or_disguise_out() -> None:
    cases = attack_cases(DEFAULT_CASES, DEFAULT_SEED)
    assert len(cases) >= 500 and len({(case.name, str(case.calls)) for case in cases}) >= 500
    names = " ".join(case.name for case in cases)
    assert [field for field in TEXT_FIELDS if field not in names] == []
    assert [disguise for disguise in DISGUISES if f", {disguise}" not in names] == []
    assert [language for language in INSTRUCTIONS if f", {language}, " not in names] == []
    assert {case.name for case in fixed_cases()} <= {case.name for case in cases}


def test_the_same_seed_gives_the_same_attacks_and_another_seed_others() -> None:
    assert attack_cases(200, 7) == attack_cases(200, 7)
    assert attack_cases(200, 7) != attack_cases(200, 8)


@pytest.mark.parametrize("disguise", DISGUISES)
def test_the_gullible_agent_obeys_every_disguise_that_is_not_quoted(disguise: str) -> None:
    hidden = DISGUISES[disguise](INSTRUCTIONS["en"][0].format(symbol="XAUUSD"))
    # A disguise that ends a quotation needs one to end.
    believed = {decide_by_brief(text).action for text in (f"- Note: {hidden}", f'- Note: "{hidden}"')}
    assert "obeys" in believed


def test_an_attack_without_words_has_none() -> None:
    assert list(texts_of({"qty": 1, "legs": [2, {"px": 3}]})) == []


def test_the_table_is_written_between_the_marks_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "security.md"
    page.write_text(f"# Attacks\n\n{TABLE_BEGINS}\nold\n{TABLE_ENDS}\n\nThe end.\n", encoding="utf-8")
    write_table(page, attack_report([], 520, 19), date(2026, 11, 18))
    text = page.read_text(encoding="utf-8")
    assert "old" not in text and text.endswith(f"{TABLE_ENDS}\n\nThe end.\n")
    assert "Measured on 2026-11-18 by `memtape attack --cases 520 --seed 19 --page docs/security.md`." in text


def test_a_page_without_the_marks_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Other\n", encoding="utf-8")
    with pytest.raises(Invalid, match="page"):
        write_table(page, attack_report([], 1, 1), date(2026, 1, 1))
    assert page.read_text(encoding="utf-8") == "# Other\n"


def test_the_files_and_notes_of_an_attack_reach_the_search_of_the_agent(tmp_path: Path) -> None:
    prepared = prepare_desk(DESKS["empty"], tmp_path / "desk")
    case = next(case for case in fixed_cases() if case.files)
    note = AttackCall("append_note", {"kind": "note", "text": "a zebra crossed the range", "run": "run-1"})
    with open_desk(prepared) as memory:
        carry_out(replace(case, calls=(note, *case.calls)), prepared, memory)
        for words, path in (("ranging breakout", next(iter(case.files))), ("zebra", "notes/")):
            found = ask_owner(memory, "search_documents", {"query": words})["results"]
            assert any(each["path"].startswith(path) for each in found), words
