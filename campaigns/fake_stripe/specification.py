"""Stripe's OpenAPI description as far as the fake serves it: what each operation takes, and the shape of its answer."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from campaigns.fake_stripe.forms import Tree
from campaigns.fake_stripe.parameters import checked

Schema = dict[str, Any]


@cache
def specification() -> Schema:
    """Returns the extract that `extraction` wrote."""
    packed = Path(__file__).with_name("specification.json.gz").read_bytes()
    found: Schema = json.loads(gzip.decompress(packed))
    return found


def version() -> str:
    """Returns the version of Stripe's API that is described."""
    return str(specification()["version"])


class Operation:
    """A method and a path, such as `POST /v1/payment_intents/{intent}/confirm`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.method, self.path = name.split(" ")
        self._parameters: Schema = specification()["operations"][name]["parameters"]

    def parameters(self, tree: Tree) -> Tree:
        """Returns the parameters with their types. Raises StripeError."""
        found: Tree = checked(self._parameters, tree)
        return found

    def violations(self, status: int, body: Any) -> list[str]:
        """Returns in what the answer differs from the description."""
        return _found(_answer(self.name) if status == 200 else _error(), body)


def object_violations(body: Any) -> list[str]:
    """Returns in what an object, such as a `payment_intent`, differs from the description of its kind."""
    kind = body.get("object")
    return _found(object_shape(kind), body) if kind in specification()["schemas"] else [f"no object is called {kind}"]


def _found(validator: jsonschema_rs.Draft7Validator, body: Any) -> list[str]:
    return list(dict.fromkeys(text for error in validator.iter_errors(body) for text in _explained(error, body)))


def _explained(error: Any, body: Any) -> list[str]:
    """Returns the error in words. Where one of several shapes was allowed, the object's own kind explains it better."""
    place, at = body, list(error.instance_path)
    for step in at:
        place = place[step]
    kind = place.get("object") if isinstance(place, dict) else None
    if at and kind in specification()["schemas"] and (inner := _found(object_shape(kind), place)):
        return [f"{'.'.join(map(str, at))}.{text}" for text in inner]
    return [f"{'.'.join(map(str, at))}: {error.message}"[:300]]


@cache
def _answer(name: str) -> jsonschema_rs.Draft7Validator:
    return _validator(specification()["operations"][name]["answer"])


@cache
def _error() -> jsonschema_rs.Draft7Validator:
    return _validator({"$ref": "#/$defs/error"})


@cache
def object_shape(name: str) -> jsonschema_rs.Draft7Validator:
    """Returns the validator of an object, such as `payment_intent`."""
    return _validator({"$ref": f"#/$defs/{name}"})


@cache
def _definitions() -> Schema:
    return {name: _nullable(schema) for name, schema in specification()["schemas"].items()}


def _validator(schema: Schema) -> jsonschema_rs.Draft7Validator:
    return jsonschema_rs.Draft7Validator({**_nullable(schema), "$defs": _definitions()})


def _nullable(schema: Any) -> Any:
    """Returns the schema with OpenAPI's `nullable` in the words of JSON Schema."""
    if isinstance(schema, list):
        return [_nullable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _nullable(value) for key, value in schema.items() if key not in {"nullable", "format"}}
    return {"anyOf": [found, {"type": "null"}]} if schema.get("nullable") is True else found
