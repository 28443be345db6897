"""The schemas that go to providers: flat, every field required, and no keyword that a provider refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from memtape.errors import ModelFailed
from memtape.plugs.models import model_of
from memtape.sim.model_trader import ProposeOrder
from tests.plugs.llm_server import LlmServer, Says, llm_server

NAMES = {"anthropic": "anthropic/claude-haiku-4-5", "openai": "openai/gpt-5-mini"}
PASSED = {"symbol": "BTC", "action": "no_trade", "reason": "quiet"}
OPTIONAL = ("qty", "risk_pct", "kind", "px", "stop", "target", "side", "bars", "confidence", "memories")
REFUSED_KEYWORDS = {
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "format",
    "minItems", "maxItems", "uniqueItems", "default", "allOf", "oneOf", "not", "$ref", "$defs", "le", "ge", "lt", "gt",
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[LlmServer]:
    with llm_server() as opened:
        yield opened


def sent(server: LlmServer, provider: str) -> dict[str, Any]:
    """The schema of an order as it goes over the wire."""
    server.plays(Says(json.dumps(PASSED | dict.fromkeys(OPTIONAL))))
    model = model_of(NAMES[provider], base_url=server.url(provider), api_key="k", retries=0)
    assert model.answer("system", "user", ProposeOrder, max_tokens=100).data == PASSED, "null stands for what is left out"
    body = server.asked[0].body
    found: dict[str, Any] = (
        body["output_config"]["format"]["schema"] if provider == "anthropic" else body["response_format"]["json_schema"]["schema"]
    )
    return found


def keywords(schema: object) -> set[str]:
    """Every keyword of a schema, however deep."""
    if isinstance(schema, list):
        return set().union(*map(keywords, schema))
    if not isinstance(schema, dict):
        return set()
    inner = [
        *(each for name in ("properties", "$defs") for each in schema.get(name, {}).values()),
        *(value for name, value in schema.items() if name not in ("properties", "$defs", "enum", "required")),
    ]
    return set(schema).union(*map(keywords, inner))


@pytest.mark.parametrize("provider", NAMES)
def test_the_schema_of_an_order_is_flat_and_every_field_is_required_or_null(server: LlmServer, provider: str) -> None:
    schema = sent(server, provider)
    assert schema["required"] == list(schema["properties"]) and schema["additionalProperties"] is False
    assert not keywords(schema) & REFUSED_KEYWORDS
    for name in OPTIONAL:
        alternatives = schema["properties"][name]["anyOf"]
        assert len(alternatives) == 2 and alternatives[1] == {"type": "null"}, name
        assert "anyOf" not in alternatives[0] and alternatives[0]["type"] in ("number", "string", "integer", "array")
    assert not any("anyOf" in schema["properties"][name] for name in ("symbol", "action", "reason"))


def test_openais_own_package_has_nothing_to_make_strict_in_the_schema_of_an_order(server: LlmServer) -> None:
    strict = pytest.importorskip("openai.lib._pydantic")
    schema = sent(server, "openai")
    made = json.loads(json.dumps(schema))
    assert strict._ensure_strict_json_schema(made, path=(), root=made) == schema
    # It can tell: what is not strict is changed by it.
    loose = {"type": "object", "properties": {"n": {"type": "integer", "default": None}}}
    assert strict._ensure_strict_json_schema(dict(loose), path=(), root=loose)["required"] == ["n"]


def test_anthropics_own_package_has_nothing_to_take_out_of_the_schema_of_an_order(server: LlmServer) -> None:
    package = pytest.importorskip("anthropic")
    schema = sent(server, "anthropic")
    assert package.transform_schema(schema) == without_types_of_enums(schema)
    # It can tell: what is not supported becomes a part of the description.
    assert "minimum" in package.transform_schema({"type": "integer", "minimum": 1})["description"]


def without_types_of_enums(schema: Any) -> Any:
    """A schema as Anthropic's package writes it: an enum needs no type."""
    if isinstance(schema, list):
        return [without_types_of_enums(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = "type" if "enum" in schema or "const" in schema else ""
    return {name: value if name == "enum" else without_types_of_enums(value) for name, value in schema.items() if name != left_out}


@pytest.mark.parametrize("provider", NAMES)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"additionalProperties": True}, "additionalProperties"),
        ({"properties": {"n": {"type": "integer", "minLength": 1}}, "required": ["n"]}, "minLength"),
        ({"properties": {"n": {"anyOf": [{"type": "integer"}], "le": 3}}, "required": ["n"]}, "le"),
    ],
)
def test_the_server_of_these_tests_refuses_what_the_provider_refuses(
    server: LlmServer, provider: str, change: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = {"type": "object", "properties": {}, "required": [], "additionalProperties": False} | change
    for module in ("anthropic_model", "openai_model"):
        monkeypatch.setattr(f"memtape.plugs.{module}.enforceable_schema", lambda schema, all_required: bad)
    model = model_of(NAMES[provider], base_url=server.url(provider), api_key="k", retries=0)
    with pytest.raises(ModelFailed, match=said) as failed:
        model.answer("system", "user", ProposeOrder, max_tokens=100)
    assert (failed.value.status, failed.value.retry_later) == (400, False)


def test_openai_wants_every_property_in_required_and_anthropic_no_limit_of_a_number(
    server: LlmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": [], "additionalProperties": False}
    for provider, said in (("openai", "every key in properties"), ("anthropic", "minimum")):
        monkeypatch.setattr(f"memtape.plugs.{provider}_model.enforceable_schema", lambda schema, all_required: limited)
        with pytest.raises(ModelFailed, match=said):
            model_of(NAMES[provider], base_url=server.url(provider), api_key="k", retries=0).answer(
                "system", "user", ProposeOrder, max_tokens=100
            )
