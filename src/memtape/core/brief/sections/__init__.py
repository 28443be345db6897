"""The sections of a brief, one module each.

Every line begins with a marker and holds one item. Text written by others is quoted, and a line that can be cited ends in its id.
Numbers have one form each (`number_format`). A section does not choose what fits: each line states its priority (`budget`).

To add a section, add a module here with one function under `@section` (`section_register`). Header and footer are no sections:
they depend on which sections are present.

>>> [spec.name for spec in SECTIONS]  # doctest: +NORMALIZE_WHITESPACE
['limits', 'strategy', 'lessons',
 'rules', 'recent_trades', 'open_positions', 'risk_state', 'memory', 'similar']
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from memtape.core.brief.section_register import registered_sections

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

SECTIONS = registered_sections()
SECTION_TOKENS = {spec.name: spec.max_tokens for spec in SECTIONS if spec.max_tokens is not None}
# The segments that a brief without memory leaves out, to show the difference that memory makes.
FROM_MEMORY = frozenset(spec.name for spec in SECTIONS if spec.from_memory)
