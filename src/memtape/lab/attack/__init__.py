"""The attack suite: a model that has been turned tries every tool it may call, and what changed is measured.

Start reading at `suite.py`. `desks.py` prepares the stores, `cases.py` says what an attack is, `fixed_cases.py` and
`generator.py` make them, `doors.py` carries them out, `report.py` sums up, `measures.py`
compares before and after, `gullible_agent.py` is the reader who believes.
"""
