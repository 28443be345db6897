"""The HTTP interface explained: /v1 answers a person and a program, /docs shows every operation of the OpenAPI document."""

from __future__ import annotations

from functools import partial

import pytest
from starlette.testclient import TestClient

import memtape
from memtape.surfaces.http import build_app
from memtape.surfaces.registry import all_operations
from memtape.surfaces.web import add_pages

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(scope="module")
def client(floor):
    with TestClient(build_app(floor, mcp=False, web=partial(add_pages, memory=floor)), base_url="http://127.0.0.1:8765") as client:
        yield client


def test_a_program_gets_the_operations_by_group_as_json(client):
    answer = client.get("/v1")
    listed = answer.json()
    names = {row["name"] for rows in listed["groups"].values() for row in rows}
    assert names == set(all_operations()) and answer.headers["vary"] == "Accept"
    assert all(client.get(listed[name]).status_code == 200 for name in ("openapi", "docs"))


def test_a_person_who_opens_the_api_in_a_browser_gets_a_page(client):
    sent = client.get("/v1", headers=BROWSER, follow_redirects=False)
    assert (sent.status_code, sent.headers["location"]) == (303, "/docs")


def test_a_server_without_pages_answers_a_browser_with_json(floor):
    with TestClient(build_app(floor, mcp=False), base_url="http://127.0.0.1:8765") as bare:
        assert bare.get("/v1", headers=BROWSER).json()["docs"] is None


def test_every_operation_has_a_page_with_each_field_it_takes(client):
    overview = client.get("/docs").text
    for name, known in all_operations().items():
        assert f'href="/docs/{name}"' in overview
        page = client.get(f"/docs/{name}")
        assert page.status_code == 200, name
        assert all(f'<th scope="row">{field}' in page.text for field in known.params.model_fields), name


def test_an_unknown_operation_is_answered_with_the_nearest(client):
    misspelled = client.get("/docs/list_agnets")
    assert misspelled.status_code == 404 and "Did you mean list_agents" in misspelled.text


def test_the_pages_render_in_a_browser_without_a_request_elsewhere(visit):
    overview = visit()
    overview.page.goto(overview.address + "/v1")
    assert overview.page.url.endswith("/docs") and overview.page.locator("h2", has_text="Agents").count() == 1
    overview.page.get_by_role("link", name="delete_agent", exact=True).click()
    assert overview.page.locator("h1").inner_text() == "delete_agent"
    assert "repeat the id of the agent" in overview.page.locator("main").inner_text()
    narrow = visit(width=400, dark=True)
    narrow.page.goto(narrow.address + "/docs/get_trades")
    assert narrow.page.evaluate("document.documentElement.scrollWidth") <= 400


def test_deleting_an_agent_says_what_confirm_must_be():
    # A store of its own: the other tests of this session share one, and count its agents.
    with memtape.open(":memory:") as memory, TestClient(build_app(memory, mcp=False), base_url="http://127.0.0.1:8765") as client:
        unknown = client.post("/v1/delete_agent", json={"id": "gold"})
        assert unknown.status_code == 404 and "there is no agent 'gold'" in unknown.json()["detail"]
        client.post("/v1/create_agent", json={"id": "gold"})
        problem = client.post("/v1/delete_agent", json={"id": "gold"}).json()
    assert problem["errors"] == [
        {"field": "confirm", "problem": "is missing",
         "fix": "To delete the agent and all its records for good, repeat its id: confirm=gold"}
    ]  # fmt: skip


def test_an_error_names_every_wrong_field_and_counts_characters(client):
    problem = client.post("/v1/remember", json={"fact": "é" * 5000, "kind": 7, "nonsense": 1}).json()
    assert len(problem["errors"]) >= 2 and all(each["fix"] for each in problem["errors"])
    assert "characters" in problem["detail"]
