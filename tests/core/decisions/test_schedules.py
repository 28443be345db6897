"""Schedules, against an oracle that looks at every minute in turn."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.decisions.schedules import parse_schedule, schedule_due
from memtape.errors import Invalid
from tests.effort import examples

LONG_AGO = datetime(1980, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
NAMES = {3: ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 4: ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# ---- the oracle: what the words of a cron mean, minute by minute ----------------------------------------------------


def value_of(text: str, field: int) -> int:
    names = NAMES.get(field, [])
    return names.index(text) + (field == 3) if text in names else int(text)


def fits_field(text: str, field: int, value: int) -> bool:
    def fits(part: str) -> bool:
        span, _, step = part.partition("/")
        low = 1 if field in (2, 3) else 0
        if span == "*":
            return (value - low) % int(step or 1) == 0
        first, _, last = span.partition("-")
        a, b = value_of(first, field), value_of(last or first, field)
        # Sunday is both 0 and 7.
        return any(a <= v <= b and (v - a) % int(step or 1) == 0 for v in ((value, value + 7) if (field, value) == (4, 0) else (value,)))

    return any(fits(part) for part in text.split(","))


def fires(cron: str, minute: datetime) -> bool:
    fields = cron.lower().split()
    values = (minute.minute, minute.hour, minute.day, minute.month, (minute.weekday() + 1) % 7)
    fit = [fits_field(text, n, value) for n, (text, value) in enumerate(zip(fields, values, strict=True))]
    day = fit[2] and fit[4] if "*" in (fields[2][0], fields[4][0]) else fit[2] or fit[4]
    return fit[0] and fit[1] and fit[3] and day


def parts(low: int, high: int, field: int) -> st.SearchStrategy[str]:
    def spelled(value: int) -> st.SearchStrategy[str]:
        names = NAMES.get(field, [])
        place = value - (field == 3)
        return st.sampled_from([str(value), *(([names[place], names[place].upper()]) if place < len(names) else [])])

    value = st.integers(low, high).flatmap(spelled)
    span = (
        st.tuples(st.integers(low, high), st.integers(low, high)).map(lambda pair: (min(pair), max(pair))).filter(lambda p: p[0] < p[1])
    )
    ranges = span.map(lambda pair: f"{pair[0]}-{pair[1]}")
    steps = st.integers(1, high)
    return st.one_of(st.just("*"), value, ranges, st.builds("*/{}".format, steps), st.builds("{}/{}".format, ranges, steps))


def fields(low: int, high: int, field: int) -> st.SearchStrategy[str]:
    return st.lists(parts(low, high, field), min_size=1, max_size=3).map(",".join)


MONTHS = fields(1, 12, 3) | st.just("*")
CRONS = st.tuples(fields(0, 59, 0), fields(0, 23, 1), fields(1, 31, 2), MONTHS, fields(0, 7, 4)).map(" ".join)
MOMENTS = st.datetimes(datetime(2024, 1, 1), datetime(2030, 12, 31), timezones=st.just(UTC)).map(lambda t: t.replace(microsecond=0))
PERIODS = st.builds("every {}{}".format, st.integers(1, 500), st.sampled_from("mhd"))
DAYS_SEARCHED = 4


@settings(max_examples=examples(60, 2_000), deadline=None)
@given(CRONS, MOMENTS)
def test_a_cron_fires_at_the_minutes_that_a_search_by_hand_finds(cron, now):
    schedule = parse_schedule_or_none(cron)
    start = now.replace(second=0)
    after = [start + n * MINUTE for n in range(1, DAYS_SEARCHED * 1440)]
    before = [start - n * MINUTE for n in range(DAYS_SEARCHED * 1440)]
    expected_next = next((minute for minute in after if fires(cron, minute)), None)
    expected_slot = next((minute for minute in before if fires(cron, minute)), None)
    if schedule is None:
        assert expected_next is None and expected_slot is None
        return
    found = schedule_due(schedule, now, LONG_AGO, None)
    assert expected_next == (found.next if found.next <= after[-1] else None)
    assert expected_slot == (found.slot if found.slot is not None and found.slot >= before[-1] else None)


def parse_schedule_or_none(cron: str):
    try:
        return parse_schedule(cron)
    except Invalid as refused:
        assert "never fires" in str(refused)
        return None


@settings(max_examples=examples(100, 3_000))
@given(CRONS | PERIODS, MOMENTS, MOMENTS, st.none() | MOMENTS)
def test_the_next_slot_lies_ahead_and_the_due_one_after_the_last_run(text, now, configured_at, last_run):
    schedule = parse_schedule_or_none(text)
    if schedule is None:
        return
    found = schedule_due(schedule, now, configured_at, last_run)
    assert found.next > now
    assert found.due == (found.slot is not None)
    if found.slot is not None:
        assert configured_at < found.slot <= now and (last_run is None or last_run < found.slot)
        # Once the run has begun, nothing is due until the next slot.
        assert not schedule_due(schedule, found.next - timedelta(seconds=1), configured_at, now).due
    assert schedule_due(schedule, found.next, now, now).slot == found.next


@pytest.mark.parametrize(
    "text",
    ["", "every", "every 0m", "every 15", "every 15s", "every -5m", "every 1.5h", "every 15 m", "every 15m 2h", "Every 15m", "every ٥m",
     "every 999999999999d", "@daily", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *",
     "* * * 0 *", "* * * * 8", "5-1 * * * *", "* * * * fri-mon", "*/0 * * * *", "1-5/0 * * * *", "1,,2 * * * *", "1- * * * *",
     "* * L * *", "* * 15W * *", "* * * * 5#2", "* * ? * *", "mon * * * *", "* * * january *", "* * * * -1", "*/x * * * *",
     "5/ * * * *", "5/10 * * * *", "*-5 * * * *", "1-2-3 * * * *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30-31 feb */2"],
)  # fmt: skip
def test_what_is_no_schedule_is_refused_with_advice(text):
    with pytest.raises(Invalid) as refused:
        parse_schedule(text)
    assert [each.field for each in refused.value.errors] == ["schedule"]
    assert refused.value.fix


@pytest.mark.parametrize(
    ("cron", "now", "slot", "following"),
    [
        ("0 0 29 2 *", "2026-03-02 00:00", "2024-02-29 00:00", "2028-02-29 00:00"),
        ("0 0 29 2 */7", "2097-01-01 00:00", "2088-02-29 00:00", "2128-02-29 00:00"),  # a Sunday; 2100 has no 29 February
        ("0 9 30 2 mon", "2026-03-09 08:59", "2026-02-23 09:00", "2027-02-01 09:00"),  # either day is enough: Mondays of February
        ("0 9 1 * *", "2026-03-01 09:00", "2026-03-01 09:00", "2026-04-01 09:00"),
        ("0 9 */31 * sun", "2026-03-02 00:00", "2026-03-01 09:00", "2026-11-01 09:00"),  # begins with *: both must fit
        ("59 23 31 dec *", "2026-12-31 23:59", "2026-12-31 23:59", "2027-12-31 23:59"),
        ("*/90 * * * *", "2026-03-02 10:20", "2026-03-02 10:00", "2026-03-02 11:00"),
        ("0 12 * * 5-7", "2026-03-02 10:20", "2026-03-01 12:00", "2026-03-06 12:00"),
    ],
)
def test_a_rare_cron_is_found_without_a_long_search(cron, now, slot, following):
    found = schedule_due(parse_schedule(cron), at(now), LONG_AGO, None)
    assert (found.slot, found.next) == (at(slot), at(following))


def test_a_schedule_configured_at_its_own_slot_waits_for_the_next():
    nine = at("2026-03-02 09:00")
    assert not schedule_due(parse_schedule("0 9 * * *"), nine + MINUTE, configured_at=nine, last_run=None).due
    assert schedule_due(parse_schedule("0 9 * * *"), nine, configured_at=nine - MINUTE, last_run=None).due


def test_a_period_of_days_counts_from_1970_and_not_from_the_month():
    found = schedule_due(parse_schedule("every 7d"), at("2026-03-02 10:00"), LONG_AGO, None)
    assert found.slot is not None and (found.slot - datetime(1970, 1, 1, tzinfo=UTC)).days % 7 == 0
    assert found.next - found.slot == timedelta(days=7)


RARE_CRONS = st.tuples(
    st.integers(0, 59).map(str), st.integers(0, 23).map(str), st.sampled_from(["*", "29", "31", "1,15", "29-31", "*/7", "*/30", "13"]),
    st.sampled_from(["*", "2", "feb", "2,4", "*/5", "12"]), st.sampled_from(["*", "5", "fri", "0", "7", "*/6", "mon-wed"]),
).map(" ".join)  # fmt: skip


@settings(max_examples=examples(60, 2_000), deadline=None)
@given(RARE_CRONS, MOMENTS)
def test_a_rare_cron_fires_on_the_days_that_a_walk_over_years_finds(cron, now):
    schedule = parse_schedule_or_none(cron)
    if schedule is None:
        return
    minute, hour = map(int, cron.split()[:2])
    start = now.replace(hour=hour, minute=minute, second=0)
    days = [start + timedelta(days=n) for n in range(-4 * 366, 8 * 366)]
    slots = [day for day in days if fires(cron, day)]
    found = schedule_due(schedule, now, LONG_AGO, None)
    assert found.next == next((slot for slot in slots if slot > now), found.next) and found.next > now
    assert found.slot == next((slot for slot in reversed(slots) if slot <= now), found.slot)


@settings(max_examples=examples(60, 2_000), deadline=None)
@given(st.sampled_from(["every 1m", "every 7m", "every 90m", "every 5h", "every 1d", "every 11d"]), MOMENTS)
def test_a_period_fires_at_the_minutes_since_1970_that_it_divides(text, now):
    count, unit = int(text[6:-1]), {"m": 1, "h": 60, "d": 1440}[text[-1]]
    minutes = int(now.timestamp()) // 60
    while minutes % (count * unit):
        minutes -= 1
    found = schedule_due(parse_schedule(text), now, LONG_AGO, None)
    assert int(found.slot.timestamp()) == minutes * 60 and int(found.next.timestamp()) == (minutes + count * unit) * 60
