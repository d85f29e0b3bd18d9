"""The description's schemas of structs: msgspec's, except that a `Decimal` is a JSON number."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

Json = dict[str, Any]

_DECIMAL: Final = {"type": "string", "format": "decimal"}
_PATH: Final = "#/components/schemas/"
_ECHO: Final = "OfOrder"
_NAMES: Final = {
    "OrderDocument": "PaymentOrder",
    "CustomerDocument": "CustomerOfOrder",
    "PaymentMethodDocument": "PaymentMethodOfOrder",
    "NotificationPreferencesDocument": "NotificationPreferencesOfCustomer",
    "FiscalData": "CustomerFiscalDataOfOrder",
}


def reference(struct: Any) -> Json:
    """Returns a reference to a struct's schema."""
    return {"$ref": f"{_PATH}{_name(struct.__name__)}"}


def schemas(structs: Sequence[Any]) -> dict[str, Json]:
    """Returns the schemas of these structs and of the structs inside them, by name, in alphabetical order."""
    _, found = msgspec.json.schema_components(structs, ref_template=_PATH + "{name}")
    named = {_name(name): _as_written(schema) for name, schema in found.items()}
    for name, schema in named.items():
        if "properties" in schema:
            schema["title"] = name
            _explain_echo(schema, named.get(name.removesuffix(_ECHO), {}))
    return {name: named[name] for name in sorted(named)}


def add_member(named: Mapping[str, Json], structs: Iterable[Any], member: str, schema: Json) -> None:
    """Adds an optional member to the schemas of these structs, which are among the `named` ones."""
    for struct in structs:
        named[_name(struct.__name__)]["properties"][member] = schema


def _name(struct: str) -> str:
    """Returns a struct's published name. A struct of requests keeps its name; a struct of answers with the same name
    gets a suffix.
    """
    package, _, short = struct.rpartition(".")
    if package.startswith("ledger."):
        return f"{short}{_ECHO}"
    return _NAMES.get(short) or short.removesuffix("Document")


def _explain_echo(answered: Json, sent: Json) -> None:
    """Copies the descriptions of a request's fields to the same fields of the answer."""
    fields = sent.get("properties", {})
    if answered["properties"].keys() <= fields.keys():
        answered["description"] = sent["description"]
    for field, schema in answered["properties"].items():
        description = fields.get(field, {}).get("description")
        if description is not None and "description" not in schema:
            schema["description"] = description.replace("Required. ", "")


def _as_written(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_as_written(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.items() >= _DECIMAL.items():
        return {name: _as_written(part) for name, part in schema.items() if name != "format"} | {"type": "number"}
    written = {name: _as_written(part) for name, part in schema.items()}
    if isinstance(target := schema.get("$ref"), str):
        folder, _, name = target.rpartition("/")
        written["$ref"] = f"{folder}/{_name(name)}"
    if isinstance(description := schema.get("description"), str):
        written["description"] = inspect.cleandoc(description)
    if schema.get("required") == []:
        del written["required"]
    if schema.get("additionalProperties") is False:  # a misspelt name is refused, another one is ignored
        del written["additionalProperties"]
    return _without_null_default(written)


def _without_null_default(schema: Json) -> Json:
    """Removes the default null: absent and null are the same, and generated clients would send the default."""
    if "default" in schema and schema["default"] is None:
        del schema["default"]
    return schema
