"""From Structs to the schemas of the description.

The rule a stranger would break: what msgspec says of a type stands, except where it is written otherwise than msgspec
would: a `Decimal` is a JSON number here.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Final

import msgspec

Json = dict[str, Any]

_DECIMAL: Final = {"type": "string", "format": "decimal"}
_PLACE: Final = "#/components/schemas/"
_ECHO: Final = "OfOrder"
_NAMES: Final = {
    "OrderDocument": "PaymentOrder",
    "CustomerDocument": "CustomerOfOrder",
    "PaymentMethodDocument": "PaymentMethodOfOrder",
    "FiscalData": "CustomerFiscalDataOfOrder",
}


def reference(struct: Any) -> Json:
    """Where a Struct's schema stands."""
    return {"$ref": f"{_PLACE}{_name(struct.__name__)}"}


def schemas(structs: Sequence[Any]) -> dict[str, Json]:
    """The schemas of these Structs and of all that stands inside them, in the order of their names."""
    _, found = msgspec.json.schema_components(structs, ref_template=_PLACE + "{name}")
    named = {_name(name): _as_written(schema) for name, schema in found.items()}
    for name, schema in named.items():
        if "properties" in schema:
            schema["title"] = name
            _explain_echo(schema, named.get(name.removesuffix(_ECHO), {}))
    return {name: named[name] for name in sorted(named)}


def _name(struct: str) -> str:
    """What a Struct is called in the description. What is sent keeps its name; what is answered of it stands beside it."""
    package, _, short = struct.rpartition(".")
    if package.startswith("ledger."):
        return f"{short}{_ECHO}"
    return _NAMES.get(short) or short.removesuffix("Document")


def _explain_echo(answered: Json, sent: Json) -> None:
    """What is echoed means what it meant when it was sent."""
    fields = sent.get("properties", {})
    if answered["properties"].keys() <= fields.keys():
        answered["description"] = sent["description"]
    for field, schema in answered["properties"].items():
        said = fields.get(field, {}).get("description")
        if said is not None and "description" not in schema:
            schema["description"] = said.replace("Required. ", "")


def _as_written(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_as_written(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.items() >= _DECIMAL.items():
        return {name: _as_written(part) for name, part in schema.items() if name != "format"} | {"type": "number"}
    written = {name: _as_written(part) for name, part in schema.items()}
    if isinstance(target := schema.get("$ref"), str):
        place, _, name = target.rpartition("/")
        written["$ref"] = f"{place}/{_name(name)}"
    if isinstance(words := schema.get("description"), str):
        written["description"] = inspect.cleandoc(words)
    if schema.get("required") == []:
        del written["required"]
    return _without_null_default(written)


def _without_null_default(schema: Json) -> Json:
    """Absent and null are the same; saying so as a default would make generated programs send it."""
    if "default" in schema and schema["default"] is None:
        del schema["default"]
    return schema
