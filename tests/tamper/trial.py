"""A forgery on trial: it is committed, verify is asked, and what verify failed to say is noted."""

from __future__ import annotations

from dataclasses import dataclass, field

from memtape.engine import Memory
from memtape.engine.proof.audit import Audit, verify_store
from memtape.store.rows import KEYS
from tests.tamper.forger import Forger, Forgery, Refused


@dataclass
class Trial:
    """A memory, the forger of its store, and what came of the forgeries tried."""

    memory: Memory
    forger: Forger
    committed: int = 0
    failures: list[str] = field(default_factory=list)

    def attempt(self, forgery: Forgery) -> None:
        """Let the forger do it, ask verify, put things right again."""
        try:
            self.forger.commit(forgery)
        except Refused:
            return
        self.committed += 1
        try:
            failure = overlooked(forgery, verify_store(self.memory))
        except Exception as error:  # noqa: BLE001  verify must answer whatever is in the tables; any exception is the finding
            failure = f"verify gave up with {type(error).__name__}: {error}"
        finally:
            self.forger.restore(forgery.table)
        if failure:
            self.failures.append(f"{forgery}: {failure}")

    def verdict(self) -> str:
        """What went wrong, shortly; '' if nothing did."""
        shown = "\n".join(self.failures[:20])
        return f"{len(self.failures)} of {self.committed} forgeries:\n{shown}" if self.failures else ""


def overlooked(forgery: Forgery, audit: Audit) -> str | None:
    """What verify failed to say about a forgery."""
    if audit.ok:
        # A forged version of the rules asks for a rebuild, which makes every projection from the log.
        return None if audit.needs_rebuild else "not noticed"
    first = audit.problems[0]
    if not (first.table and first.key):
        return f"the first bad row has no name: {first}"
    if forgery.table in ("log", "streams"):  # what is wrong with one shows in the other, or in what follows from it
        return None
    here = [problem for problem in audit.problems if problem.table == forgery.table]
    if not here:
        return f"blamed on others: {first}"
    key = "/".join(str(forgery.row[c]) for c in KEYS[forgery.table])
    if forgery.in_place and forgery.table != "bars" and key not in {problem.key for problem in here}:
        return f"another row is named: {here[0]}"
    return None
