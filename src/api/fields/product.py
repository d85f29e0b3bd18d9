"""The product of an import: its shape, and the parser that reports every wrong field of it (contract N69, N70).

A product has any further fields beside those of its shape. They are kept as its attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from api.decoding.bodies import FieldDecoder
from api.decoding.repeated_names import errors_of_repeated_names, has_repeated_name
from api.decoding.stored_text import check_stored_field, is_harmless
from api.decoding.types import TAXES_MAX, TEXT_MAX, Id, LongText, Metadata, Number, Text
from api.decoding.unknown_names import by_spelling, misspelt, spelling_of
from api.errors import ApiError, FieldError, invalid
from api.fields.line_items import Tax, parse_tax
from api.fields.metadata import metadata
from api.fields.values import amount, is_given, measure, printable
from ledger.domain.orders import terms
from ledger.domain.products.commands import Problem
from ledger.operations.products.import_products import ProductInput
from ledger.processors.cvc_detection import contains_cvc
from ledger.processors.pan_detection import contains_pan

PROBLEMS_MAX: Final = 20
"""The most problems of one product that an answer names."""

PRODUCT_BYTES_MAX: Final = 256 << 10
"""The largest product: as long as another request's body may be. It is parsed without a turn of the event loop."""

_TOO_LONG: Final = Problem("", "INVALID_LENGTH", f"must have at most {PRODUCT_BYTES_MAX} bytes")
_STATUSES: Final = frozenset({"active", "inactive", "archived"})
_CURRENCY: Final = re.compile("[A-Za-z]{3}", re.ASCII)
_WEB_ADDRESS: Final = re.compile(r"https?://[^\s/?#]\S*", re.ASCII | re.IGNORECASE)
_ATTRIBUTES: Final = "attributes"


class ProductToImport(Struct, frozen=True, kw_only=True, rename="camel"):
    """A product of an import. An absent field keeps its value; null clears a field other than id, name, price and
    status. Any further field is kept in `attributes`.
    """

    id: Annotated[
        Id | None,
        Meta(description="The merchant's id of the product. A product that has it already is updated."),
    ] = None
    name: Annotated[Id | None, Meta(description="Required for a new product.")] = None
    price: Annotated[
        Number | UnsetType,
        Meta(description="Required for a new product. In minor units (cents), up to four decimals.", examples=[38900]),
    ] = UNSET
    status: Annotated[
        Id | None,
        Meta(
            description="active, inactive or archived; any other value is kept as it was sent. A new product is active.",
            examples=["active"],
        ),
    ] = None
    external_id: Annotated[Id | None, Meta(description="An id of the product in another system.")] = None
    description: Annotated[LongText | None, Meta(description="Free text.")] = None
    sku: Annotated[Text | None, Meta(description="The merchant's stock number.")] = None
    currency: Annotated[
        Text | None,
        Meta(
            description="ISO 4217 code of the price.", examples=["MXN"], extra_json_schema={"pattern": "^[A-Za-z]{3}$"}
        ),
    ] = None
    product_key: Annotated[Text | None, Meta(description="SAT c_ClaveProdServ.", examples=["50201706"])] = None
    unit_key: Annotated[Text | None, Meta(description="SAT c_ClaveUnidad.", examples=["H87"])] = None
    unit_name: Annotated[Text | None, Meta(description="Name of the unit.")] = None
    tax_included: Annotated[bool | None, Meta(description="Whether price contains the taxes.")] = None
    taxes: Annotated[
        Annotated[list[Tax], Meta(max_length=TAXES_MAX)] | None,
        Meta(description="Taxes on the product."),
    ] = None
    category: Annotated[Text | None, Meta(description="The merchant's category.")] = None
    image_url: Annotated[Text | None, Meta(description="A web address.", examples=["https://example.com/1.jpg"])] = None
    stock: Annotated[Number | UnsetType, Meta(description="How many there are, up to six decimals.")] = UNSET
    metadata: Annotated[Metadata | UnsetType, Meta(description="Arbitrary JSON object, stored as it was sent.")] = UNSET
    attributes: Annotated[
        Metadata | UnsetType,
        Meta(description="Further fields by their names, merged into those that the product has."),
    ] = UNSET


_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_DECODERS: Final = {
    field.encode_name: FieldDecoder[Any](field.encode_name, field.type)
    for field in msgspec.structs.fields(ProductToImport)
}
_NAMES: Final = {field.encode_name: field.name for field in msgspec.structs.fields(ProductToImport)}
_SPELLINGS: Final = by_spelling(_DECODERS)
_KEPT_WHERE_NULL: Final = frozenset({"id", "name", "price", "status"})


def parse_product(index: int, sent: Raw) -> ProductInput:
    """Returns a product of an import with everything that is wrong with it, up to twenty problems."""
    if len(bytes(sent)) > PRODUCT_BYTES_MAX:
        return ProductInput(index=index, problems=(_TOO_LONG,))
    try:
        members = _members(sent)
    except msgspec.ValidationError:
        return ProductInput(index=index, problems=(Problem("", "INVALID_TYPE", "must be an object"),))
    details, unknown, problems = dict[str, Any](), dict[str, Raw](), _repeated(bytes(sent))
    harmless = is_harmless(bytes(sent))
    for name, value in members.items():
        try:
            if name not in _DECODERS:
                # The merchant's own attributes: only another spelling of a field's name is surely a mistake.
                if meant := _SPELLINGS.get(spelling_of(name)):
                    raise misspelt(name, meant)
                unknown |= _unknown_field(name, value, harmless=harmless)
            elif name in _KEPT_WHERE_NULL and not is_given(value):
                continue
            else:
                details[_NAMES[name]] = parsed = _field(name, value)
                if not harmless:
                    check_stored_field(parsed, name)
        except ApiError as error:
            details.pop(_NAMES.get(name, ""), None)
            problems += [Problem(each.field, each.code, each.message) for each in error.errors]
    try:
        details |= _attributes(details.pop(_ATTRIBUTES, UNSET), unknown)
    except ApiError as error:
        problems += [Problem(each.field, each.code, each.message) for each in error.errors]
    product_id = details.pop("id", None)
    problems = problems[:PROBLEMS_MAX]
    return ProductInput(index=index, id=product_id, details=details, problems=tuple(problems))


def _repeated(sent: bytes) -> list[Problem]:
    """Returns the problem of each name that an object of a product has twice."""
    if not has_repeated_name(sent):
        return []
    errors = [each for error in errors_of_repeated_names(sent) for each in error.errors]
    return [Problem(each.field, each.code, each.message) for each in errors]


def _field(name: str, value: Raw) -> Any:
    """Returns what a field of the shape holds, None for null. Raises ApiError (400)."""
    decoded = _DECODERS[name](value)
    if decoded is None or not is_given(value):
        return None
    parse = _PARSERS.get(name)
    return decoded if parse is None else parse(decoded)


def _status(text: str) -> str:
    return text.lower() if text.lower() in _STATUSES else text


def _currency(text: str) -> str:
    if not _CURRENCY.fullmatch(text):
        raise invalid("currency", "must be a code of three letters", "INVALID_FORMAT")
    return text.upper()


def _image_url(text: str) -> str:
    if not _WEB_ADDRESS.fullmatch(text):
        raise invalid("imageUrl", "must be a web address that begins with http:// or https://", "INVALID_FORMAT")
    return text


def _taxes(taxes: list[Tax]) -> tuple[terms.Tax, ...]:
    """Returns the taxes. Raises ApiError (400) with what is wrong with each of them."""
    parsed, errors = list[terms.Tax](), list[FieldError]()
    for at, tax in enumerate(taxes):
        try:
            parsed.append(parse_tax(tax))
        except ApiError as error:
            errors += error.within(f"taxes[{at}]").errors
    if errors:
        raise ApiError(400, "VALIDATION_ERROR", "A tax is not valid.", errors=tuple(errors))
    return tuple(parsed)


_PARSERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "id": lambda text: printable(text, "id"),
    "price": lambda raw: amount(raw, "price"),
    "status": _status,
    "currency": _currency,
    "imageUrl": _image_url,
    "stock": lambda raw: measure(raw, "stock"),
    "taxes": _taxes,
    "metadata": metadata,
    _ATTRIBUTES: lambda raw: metadata(raw, _ATTRIBUTES),
}


def _unknown_field(name: str, value: Raw, *, harmless: bool) -> dict[str, Raw]:
    """Returns a field that is not of the shape as an attribute. Raises ApiError (400) that names the field.

    A name that may not be repeated is reported as `attributes`.
    """
    if not harmless:
        is_shown = len(name) <= TEXT_MAX and name.isprintable() and not (contains_pan(name) or contains_cvc(name))
        check_stored_field(Raw(msgspec.json.encode({name: value})), name if is_shown else _ATTRIBUTES)
    return {name: value}


def _attributes(sent: Raw | UnsetType | None, unknown: Mapping[str, Raw]) -> dict[str, Any]:
    """Returns the attributes that `attributes` and the unknown fields give, an empty dict if there are none.

    Raises ApiError (400).
    """
    if isinstance(sent, UnsetType) and not unknown:
        return {}
    if sent is None and not unknown:
        return {_ATTRIBUTES: None}
    compact = metadata(Raw(msgspec.json.encode(unknown)), _ATTRIBUTES)
    members = {} if isinstance(sent, UnsetType) or sent is None else _members(sent)
    members |= {} if isinstance(compact, UnsetType) else _members(compact)
    return {_ATTRIBUTES: {name: None if bytes(value) == b"null" else value for name, value in members.items()}}
