"""The check of a request's parameters against Stripe's description, with Stripe's words for what is wrong."""

from __future__ import annotations

import re
from typing import Any

from campaigns.fake_stripe.errors import NotSupported, invalid

Schema = dict[str, Any]

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_UNSET: Schema = {"type": "string", "enum": [""]}


def checked(schema: Schema, value: Any, name: str = "") -> Any:
    """Returns the value with its types, "" where a parameter is unset. Raises StripeError or NotSupported."""
    if "anyOf" in schema:
        return checked(_alternative(schema["anyOf"], value), value, name)
    match schema.get("type"):
        case "object":
            return _object(schema, value, name)
        case "array":
            return _array(schema, value, name)
        case _:
            return _text(schema, value, name)


def _text(schema: Schema, value: Any, name: str) -> Any:
    """Returns a value that came as a text, with its type."""
    if not isinstance(value, str):
        raise invalid(f"Invalid {schema.get('type', 'string')}: {name}", name)
    if value == "" and "" not in schema.get("enum", []):
        raise invalid(
            f"You passed an empty string for '{name}'. We assume empty values are an attempt to unset a parameter; "
            f"however '{name}' cannot be unset. You should remove '{name}' from your request or supply a non-empty value.",
            name,
            code="parameter_invalid_empty",
        )
    return _scalar(schema, value, name)


def _alternative(schemas: list[Schema], value: Any) -> Schema:
    """Returns the alternative that has the value's shape, the first where none has."""
    if isinstance(value, dict):
        fitting = [each for each in schemas if each.get("type") in {"object", "array"}]
        known = [
            each
            for each in fitting
            if each.get("type") == "array" or not set(value) - set(each.get("properties", value))
        ]
        return (known or fitting or schemas)[0]
    plain = [each for each in schemas if each.get("type") not in {"object", "array"}]
    if value == "":
        plain = [each for each in plain if "" in each.get("enum", [])] or plain
    elif len(plain) > 1:
        plain = [each for each in plain if each.get("enum") != [""]]
    return (plain or schemas)[0]


def _object(schema: Schema, value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise invalid(f"Invalid object: {name}", name)
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
    found = {}
    for key, each in value.items():
        place = f"{name}[{key}]" if name else key
        if key in properties:
            found[key] = checked(properties[key], each, place)
        elif key in schema.get("unsupported", ()):
            raise NotSupported(f"the parameter {place}")
        elif isinstance(rest, dict):
            found[key] = checked({"anyOf": [rest, _UNSET]}, each, place)
        else:
            raise invalid(f"Received unknown parameter: {place}", place, code="parameter_unknown")
    for key in schema.get("required", ()):
        if key not in found:
            place = f"{name}[{key}]" if name else key
            raise invalid(f"Missing required param: {place}.", place, code="parameter_missing")
    return found


def _array(schema: Schema, value: Any, name: str) -> list[Any]:
    if not isinstance(value, dict) or not all(key.isdigit() for key in value):
        raise invalid(f"Invalid array: {name}", name)
    ordered = sorted(value.items(), key=lambda item: int(item[0]))
    return [checked(schema["items"], each, f"{name}[{index}]") for index, (_, each) in enumerate(ordered)]


def _scalar(schema: Schema, value: str, name: str) -> Any:
    match schema.get("type"):
        case "integer":
            if not _INTEGER.fullmatch(value):
                raise invalid(f"Invalid integer: {value}", name, code="parameter_invalid_integer")
            return int(value)
        case "boolean":
            if value not in {"true", "false"}:
                raise invalid(f"Invalid boolean: {value}", name)
            return value == "true"
        case _:
            return _word(schema, value, name)


def _word(schema: Schema, value: str, name: str) -> str:
    """Returns a text that the schema allows. Raises StripeError."""
    if (allowed := schema.get("enum")) and value not in allowed:
        raise invalid(f"Invalid {name}: must be one of {_listed(allowed)}", name)
    if len(value) > schema.get("maxLength", len(value)):
        raise invalid(f"Invalid string: {value[:20]}...; must be at most {schema['maxLength']} characters", name)
    return value


def _listed(values: list[str]) -> str:
    shown = [each for each in values if each]
    return ", ".join(shown[:-1]) + (f", or {shown[-1]}" if len(shown) > 1 else shown[0])
