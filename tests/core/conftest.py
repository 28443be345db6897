"""How hypothesis runs here: the same examples every time, and no clock."""

from hypothesis import settings

settings.register_profile("memtape", max_examples=100, derandomize=True, deadline=None)
settings.load_profile("memtape")
