"""The reports among an agent's documents: `/agents/{agent}/reports` lists them with their first line, the verdict."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from memtape.surfaces.operations.documents import DocumentRow, GetDocument, ListDocuments, get_document, list_documents
from memtape.surfaces.web.forms import query_text, read_question
from memtape.surfaces.web.register import page
from memtape.surfaces.web.site import PageRequest


class ReportView(NamedTuple):
    """A report: its first line, and the address of its text."""

    document: DocumentRow
    first_line: str
    address: str


@page("/agents/{agent}/reports", nav="Reports", within="Documents", order=15)
def reports_page(request: PageRequest) -> Response:
    """The reports of an agent, newest first."""
    shelves = request.ask(list_documents, read_question(ListDocuments, agent=request.agent.id, type="report")).shelves
    found = [one for shelf in shelves if shelf.type == "report" for one in shelf.latest]
    return request.show(
        "reports.html", reports=[_report_view(request, one) for one in found], n=sum(s.n for s in shelves if s.type == "report")
    )


def _report_view(request: PageRequest, document: DocumentRow) -> ReportView:
    text = request.ask(get_document, read_question(GetDocument, agent=request.agent.id, path=document.path)).text
    first = next((line.lstrip("# ").strip() for line in text.splitlines() if line.strip()), "")
    return ReportView(document, first[:300], f"{request.agent_path}/documents/view?{query_text({'path': document.path})}")
