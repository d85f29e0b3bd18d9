"""The description's schemas of structs: msgspec's, except that a `Decimal` is a JSON number.

A field whose text begins with "Required." may be absent for the decoder alone, whose parser names every wrong field at
once: the schema requires it. Other names of a field, whose text begins with "Alias of", are accepted and left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from api.decoding.unknown_names import structs_in

Json = dict[str, Any]

_DECIMAL: Final = {"type": "string", "format": "decimal"}
_PATH: Final = "#/components/schemas/"
_ECHO: Final = "OfOrder"
_REQUIRED: Final = "Required. "
_ALIAS: Final = "Alias of "
_NAMES: Final = {
    "OrderDocument": "PaymentOrder",
    "OrderAsOfDocument": "PaymentOrderAsOf",
    "AllocationDocument": "AllocationOfRefund",
    "CustomerDocument": "CustomerOfOrder",
    "PaymentMethodDocument": "PaymentMethodOfOrder",
    "NotificationPreferencesDocument": "NotificationPreferencesOfCustomer",
    "FiscalData": "CustomerFiscalDataOfOrder",
}


def reference(struct: Any) -> Json:
    """Returns a reference to a struct's schema."""
    return reference_to(_name(struct.__name__))


def reference_to(name: str) -> Json:
    """Returns a reference to the schema with this name."""
    return {"$ref": f"{_PATH}{name}"}


def is_canonical(described: Json) -> bool:
    """Returns whether a parameter or a property is none of the other names that are accepted for one."""
    return not described.get("description", "").startswith(_ALIAS)


def schemas(answered: Sequence[Any], taken: Sequence[Any]) -> dict[str, Json]:
    """Returns the schemas of the structs of answers and of requests, and of those inside them, by name, in alphabetical
    order.
    """
    _, found = msgspec.json.schema_components([*answered, *taken], ref_template=_PATH + "{name}")
    if len({_name(name) for name in found}) < len(found):
        raise ValueError(f"Two of these structs are published under one name: {', '.join(sorted(found))}.")
    named = {_name(name): _without_aliases(_as_written(schema)) for name, schema in found.items()}
    for struct in dict.fromkeys(part for each in taken for part in _parts(each)):
        _as_sent(named[_name(struct.__name__)], struct)
    for name, schema in named.items():
        if "properties" in schema:
            schema["title"] = name
            _explain_echo(schema, named.get(name.removesuffix(_ECHO), {}))
    used = _used([_name(struct.__name__) for struct in (*answered, *taken)], named)
    return {name: named[name] for name in sorted(used)}


def _parts(struct: Any) -> Iterator[Any]:
    """Yields a struct and those inside it."""
    yield struct
    for field in msgspec.structs.fields(struct):
        for part in structs_in(field.type):
            yield from _parts(part)


def _used(names: Iterable[str], named: Mapping[str, Json]) -> set[str]:
    """Returns these schemas and those to which they refer: what only another name of a field has is left out."""
    waiting, used = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in used:
            used.add(name)
            waiting += _references(named[name])
    return used


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for part in schema:
            yield from _references(part)
    elif isinstance(schema, dict):
        for name, part in schema.items():
            if name == "$ref" and isinstance(part, str):
                yield part.removeprefix(_PATH)
            yield from _references(part)


def _without_aliases(schema: Json) -> Json:
    if "properties" in schema:
        schema["properties"] = {name: one for name, one in schema["properties"].items() if is_canonical(one)}
    return schema


def _as_sent(schema: Json, struct: Any) -> None:
    """Makes of a struct's schema that of a request: with what has to be sent, and whether it has any further fields."""
    needed = [name for name, one in schema["properties"].items() if one.get("description", "").startswith(_REQUIRED)]
    for name in needed:
        schema["properties"][name] = _without_null(schema["properties"][name])
    if needed:
        schema["required"] = list(dict.fromkeys([*schema.get("required", ()), *needed]))
    if not struct.__struct_config__.forbid_unknown_fields:
        schema["additionalProperties"] = True


def _without_null(schema: Json) -> Json:
    """Returns the schema of a field that has to be sent: null is the same as absent."""
    schema = schema | {"description": schema["description"].removeprefix(_REQUIRED)}
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if "anyOf" in schema and len(options) == 1:
        del schema["anyOf"]
        schema = options[0] | schema
    elif options:
        schema["anyOf"] = options
    return schema


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
            schema["description"] = description


def _as_written(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_as_written(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.items() >= _DECIMAL.items():
        return {name: _as_written(part) for name, part in schema.items() if name != "format"} | {"type": "number"}
    written = {name: _as_written(part) for name, part in schema.items()}
    if written.get("enum") == [True]:
        written = {"type": "boolean", "const": True} | {name: part for name, part in written.items() if name != "enum"}
    if {} in written.get("anyOf", ()):  # any value: no schema restricts it
        del written["anyOf"]
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
