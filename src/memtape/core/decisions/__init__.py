"""Decisions and the runs that take them: cards, outcomes, reviews, re-examinations, sessions, schedules."""
