"""Every operation of memtape, once. The command line, MCP, HTTP and the pages all call these.

`skills` holds skills and agents, `records` what is observed and the ledger, `memories` what is remembered and recalled, `minds`
beliefs, habits and state, `reviews` one trade and the order to come, `plans` what is intended, `lessons` what the record taught,
`briefs` what an agent is told and was shown, `documents` what is written in its workspace, `rules` which of it is always
in context and what decisions rest on, `notes` what agents write and propose, `keeping` what is corrected, forgotten and erased.
"""

import memtape.surfaces.operations.briefs
import memtape.surfaces.operations.corrections
import memtape.surfaces.operations.documents
import memtape.surfaces.operations.lessons
import memtape.surfaces.operations.memories
import memtape.surfaces.operations.minds
import memtape.surfaces.operations.notes
import memtape.surfaces.operations.plans
import memtape.surfaces.operations.records
import memtape.surfaces.operations.reviews
import memtape.surfaces.operations.rules
import memtape.surfaces.operations.skills  # noqa: F401
