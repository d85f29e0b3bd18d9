"""The published description, and the comparison of an answer with it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from api.app import describe_interface
from api.description import as_json
from ledger.settings import Settings

DESCRIBED: dict[str, Any] = json.loads(as_json(describe_interface(Settings())))


@cache
def operations() -> dict[tuple[str, str], dict[str, Any]]:
    return {(method, path): found for path, item in DESCRIBED["paths"].items() for method, found in item.items()}


def response_of(method: str, path: str, status: int | str) -> dict[str, Any]:
    """Returns the description of an answer. Raises KeyError if an operation has no such answer."""
    found = DESCRIBED["paths"][path][method]["responses"][str(status)]
    name = found.get("$ref", "").rpartition("/")[2]
    described: dict[str, Any] = DESCRIBED["components"]["responses"][name] if name else found
    return described


def schema_of(method: str, path: str, status: int) -> dict[str, Any]:
    """Returns the schema of an answer, with everything that it refers to."""
    content = response_of(method, path, status)["content"]
    return {**content["application/json"]["schema"], "components": DESCRIBED["components"]}


def assert_described(answer: Any, method: str, path: str) -> None:
    """Asserts that an answer has a described status, the described body and all required headers."""
    assert str(answer.status_code) in DESCRIBED["paths"][path][method]["responses"], answer.text
    described = response_of(method, path, answer.status_code)
    Draft202012Validator(schema_of(method, path, answer.status_code)).validate(answer.json())
    for name, header in described["headers"].items():
        if "$ref" in header and DESCRIBED["components"]["headers"][name].get("required"):
            assert name in answer.headers
