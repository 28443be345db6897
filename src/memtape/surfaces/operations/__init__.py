"""Every operation of memtape, once. The command line, MCP, HTTP and the pages all call these; each module is one noun."""

import memtape.surfaces.operations.agents
import memtape.surfaces.operations.behaviour
import memtape.surfaces.operations.beliefs
import memtape.surfaces.operations.briefs
import memtape.surfaces.operations.calendar
import memtape.surfaces.operations.cards
import memtape.surfaces.operations.chats
import memtape.surfaces.operations.checks
import memtape.surfaces.operations.corrections
import memtape.surfaces.operations.decision_results
import memtape.surfaces.operations.decisions
import memtape.surfaces.operations.deployments
import memtape.surfaces.operations.documents
import memtape.surfaces.operations.explanations
import memtape.surfaces.operations.facts
import memtape.surfaces.operations.fills
import memtape.surfaces.operations.imports
import memtape.surfaces.operations.instruments
import memtape.surfaces.operations.journal
import memtape.surfaces.operations.ledger
import memtape.surfaces.operations.lessons
import memtape.surfaces.operations.losses
import memtape.surfaces.operations.memories
import memtape.surfaces.operations.messages
import memtape.surfaces.operations.observe
import memtape.surfaces.operations.outcomes
import memtape.surfaces.operations.plans
import memtape.surfaces.operations.proposals
import memtape.surfaces.operations.rules
import memtape.surfaces.operations.runs
import memtape.surfaces.operations.skills
import memtape.surfaces.operations.state  # noqa: F401
