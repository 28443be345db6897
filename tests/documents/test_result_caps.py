"""Who fills the first places of a search: forty pages from outside hold four of ten while there is anything else."""

from __future__ import annotations

from memtape.documents.result_caps import PassageCandidate, pick_results

OUTSIDE = [PassageCandidate(n, f"research/web/{n}.md", "web", 4) for n in range(40)]
OWN = [PassageCandidate(100 + n, f"reports/{n}.md", "report", 2) for n in range(8)]


def test_forty_pages_from_outside_hold_four_of_ten_places() -> None:
    picked = pick_results([*OUTSIDE, *OWN], 10)
    assert [each.tier for each in picked].count(4) == 4 and len(picked) == 10


def test_where_nothing_else_matches_they_fill_the_list() -> None:
    assert pick_results(OUTSIDE, 10) == OUTSIDE[:10]


def test_the_first_places_do_not_depend_on_how_many_are_asked_for() -> None:
    ten = pick_results([*OUTSIDE[:3], *OWN, *OUTSIDE[3:]], 10)
    assert [pick_results([*OUTSIDE[:3], *OWN, *OUTSIDE[3:]], n) for n in range(1, 10)] == [ten[:n] for n in range(1, 10)]
