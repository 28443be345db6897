"""Who may assert a fact, and when nothing may be remembered at all."""

from __future__ import annotations

import pytest

from memtape.core.chat_guard import ChatGuard, judge_fact, may_archive

SAID = ChatGuard().after_owner("Hello.").after_owner("I never trade alts, and I sleep at night.")


def test_the_owner_asserts_without_a_quotation():
    assert judge_fact("owner", "asserted", None, None).confidence == "asserted"
    assert judge_fact("owner", "inferred", None, None).confidence == "inferred"


def test_over_mcp_nothing_is_asserted_and_the_model_is_told():
    verdict = judge_fact("model", "asserted", "I never trade alts", None)
    assert verdict.confidence == "inferred" and "/profile/facts" in verdict.note
    assert judge_fact("model", "inferred", None, None).note == ""


@pytest.mark.parametrize(
    ("quote", "confidence"),
    [("I never trade alts", "asserted"), ("never trade alts, and I sleep", "asserted"), ("Hello.", "asserted"),
     ("i never trade alts", "inferred"), ("I never trade  alts", "inferred"), ("I always trade alts", "inferred"),
     ("I", "inferred"), ("    ", "inferred"), ("", "inferred"), (None, "inferred")],
)  # fmt: skip
def test_in_a_chat_only_the_owners_words_verbatim_assert_a_fact(quote, confidence):
    verdict = judge_fact("model", "asserted", quote, SAID)
    assert verdict.confidence == confidence
    assert bool(verdict.note) == (confidence == "inferred")


def test_once_a_tool_has_answered_nothing_is_remembered_until_the_owner_speaks():
    read = SAID.after_tool("get_document")
    for wanted, quote in (("asserted", "I never trade alts"), ("inferred", None)):
        verdict = read.judge(wanted, quote)
        assert verdict.refused and "tool" in verdict.note
    assert read.after_tool("remember").judge("inferred", None).refused
    assert read.after_owner("Yes, remember that.").judge("inferred", None).confidence == "inferred"
    assert read.after_owner("Yes.").judge("asserted", "I never trade alts").confidence == "asserted"


def test_remembering_and_forgetting_do_not_stop_remembering():
    assert SAID.after_tool("remember").after_tool("forget").judge("inferred", None).confidence == "inferred"


def test_what_the_owner_asserted_a_model_archives_only_at_the_owners_word():
    assert may_archive("owner", True, None) and may_archive("model", False, None)
    assert may_archive("model", True, SAID) and may_archive("model", False, SAID.after_tool("get_document"))
    assert not may_archive("model", True, None)
    assert not may_archive("model", True, SAID.after_tool("get_document"))
