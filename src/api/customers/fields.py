"""What a request to create or to change a customer contains, and its parser, which names every wrong field at once.

A field that is absent stays as it was; one that is null is cleared. Keep the two apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.stored_text import check_texts
from api.decoding.types import Id, Metadata
from api.errors import customer_not_found, invalid
from api.fields.fiscal import parse_receiver
from api.fields.metadata import metadata
from api.fields.people import CustomerFiscalData, PersonFields
from api.fields.values import email, is_given, phone, printable
from api.http.request import ApiRequest
from api.operation import Codes, Json
from ledger.domain.rejections import InvalidField
from ledger.operations.context.inputs import CustomerFields


class NotificationPreferences(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which messages the customer wants. What is left out stays as it is; a new customer has the defaults."""

    email: Annotated[bool | UnsetType, Meta(description="Messages by e-mail; default true.")] = UNSET
    sms: Annotated[bool | UnsetType, Meta(description="Messages by SMS; default true.")] = UNSET
    whatsapp: Annotated[bool | UnsetType, Meta(description="Messages by WhatsApp; default false.")] = UNSET
    payment_reminders: Annotated[bool | UnsetType, Meta(description="Reminders before a due date; default true.")] = (
        UNSET
    )
    receipts: Annotated[bool | UnsetType, Meta(description="Receipts of payments; default true.")] = UNSET
    invoices: Annotated[bool | UnsetType, Meta(description="Invoices; default true.")] = UNSET
    language: Annotated[
        Literal["es", "en"] | UnsetType, Meta(description="The language of messages; default `es`.")
    ] = UNSET


class _NamedPerson(PersonFields, frozen=True):  # without kw_only, its own field comes first
    external_id: Annotated[
        Id | None | UnsetType, Meta(description="The merchant's id of the customer. It never changes.")
    ] = UNSET


class CustomerBody(_NamedPerson, frozen=True, kw_only=True):
    """The fields of a customer."""

    source_id: Annotated[
        Id | None | UnsetType,
        Meta(description="The customer that this one was derived from: the service's id or the merchant's own."),
    ] = UNSET
    notification_preferences: Annotated[
        NotificationPreferences | None | UnsetType, Meta(description="Which messages the customer wants.")
    ] = UNSET
    fiscal_data: Annotated[
        CustomerFiscalData | None | UnsetType,
        Meta(
            description="The receiver of the customer's invoices, for orders with customerFiscalData CUSTOMER, for renewals, "
            "and, by the merchant's setting invoiceByDefault, for every order. Replaced as a whole."
        ),
    ] = UNSET
    metadata: Annotated[Metadata | UnsetType, Meta(description="Arbitrary JSON object, stored as it was sent.")] = UNSET


class CreateCustomer(CustomerBody, frozen=True, kw_only=True, rename="camel"):
    """The request to create a customer: at least `externalId` or `email`."""


class ChangeCustomer(CustomerBody, frozen=True, kw_only=True, rename="camel"):
    """The request to change a customer. What is left out stays; null clears, and sets preferences to the defaults."""


def parse_create(body: bytes) -> CustomerFields:
    """Returns the customer that a body asks for. Raises ApiError (400)."""
    return _parse(_decode_create, body, _require_a_name)


def parse_change(body: bytes, refused: InvalidField | None = None) -> CustomerFields:
    """Returns what a body changes of a customer. Raises ApiError (400), also for what the domain `refused` of it."""

    def require(sent: CustomerBody, errors: FieldErrors) -> None:
        _require_external_id(sent, errors)
        if refused is not None:
            errors.add_rejected(refused)

    return _parse(_decode_change, body, require)


def sent_ids(body: bytes) -> CustomerFields:
    """Returns the ids alone that a body gives, those that can be read. Raises ApiError (400)."""
    sent, _ = _decode_change.gather(body)
    return CustomerFields(external_id=sent.external_id, source_id=sent.source_id)


_decode_create: Final = BodyDecoder(CreateCustomer)
_decode_change: Final = BodyDecoder(ChangeCustomer)


def _parse(
    decode: BodyDecoder[Any], body: bytes, require: Callable[[CustomerBody, FieldErrors], None]
) -> CustomerFields:
    sent, errors = decode.gather(body)
    with BAD_INPUT_AS_400:
        for text, name in ((sent.external_id, "externalId"), (sent.source_id, "sourceId")):
            if isinstance(text, str):
                errors.check(printable, text, name)
        if isinstance(sent.email, str):
            errors.check(email, sent.email, "email")
        if isinstance(sent.phone_number, str):
            errors.check(phone, sent.phone_number, "phoneNumber")
        content = errors.check(metadata, sent.metadata)
        if isinstance(sent.metadata, Raw) and not is_given(sent.metadata):
            content = None
        fiscal = _fiscal(sent.fiscal_data, errors)
        require(sent, errors)
        parsed = CustomerFields(
            external_id=sent.external_id,
            first_name=sent.first_name,
            last_name=sent.last_name,
            email=sent.email,
            phone_number=sent.phone_number,
            source_id=sent.source_id,
            metadata=content,
            preferences=_preferences(sent.notification_preferences),
            fiscal=fiscal,
        )
        check_texts(sent, body, errors)
    errors.refuse()
    return parsed


def _require_a_name(sent: CustomerBody, errors: FieldErrors) -> None:
    if not isinstance(sent.external_id, str) and not isinstance(sent.email, str) and not errors.has("email"):
        errors.add(invalid("externalId", "is required if email is absent", "REQUIRED"))


def _require_external_id(sent: CustomerBody, errors: FieldErrors) -> None:
    if sent.external_id is None:
        errors.add(invalid("externalId", "cannot be null, because every customer has one"))


def _fiscal(sent: CustomerFiscalData | None | UnsetType, errors: FieldErrors) -> CustomerFiscalData | None | UnsetType:
    """Returns the fiscal data that were sent; an object without any value clears them. Adds the errors of fields."""
    if sent is None or isinstance(sent, UnsetType):
        return sent
    return None if sent == _NO_FISCAL_DATA else errors.check(parse_receiver, sent, "fiscalData")


_NO_FISCAL_DATA: Final = CustomerFiscalData()


def _preferences(sent: NotificationPreferences | None | UnsetType) -> dict[str, Any] | None | UnsetType:
    if sent is None or isinstance(sent, UnsetType):
        return sent
    return {name: value for name in sent.__struct_fields__ if (value := getattr(sent, name)) is not UNSET}


def customer_reference(request: ApiRequest) -> str:
    """Returns the id or external id of the customer in the path. Raises CustomerNotFound if the text cannot be an
    id.
    """
    reference = request.path_id("id")
    if reference is None:
        raise customer_not_found()
    return reference


TAG: Final = "Customers"
KEYED: Final[Codes] = {
    404: ("CUSTOMER_NOT_FOUND",),
    409: ("IDEMPOTENCY_KEY_REUSED", "REQUEST_IN_PROGRESS", "CONCURRENT_UPDATE"),
}
"""The codes of every write: of an unknown customer or source, and of requests at once."""

EXAMPLE: Final[Json] = {
    "externalId": "cliente-5521",
    "firstName": "María Fernanda",
    "lastName": "Hernández Ochoa",
    "email": "maria.hernandez@example.com",
    "phoneNumber": "+523312345678",
    "notificationPreferences": {"sms": False, "whatsapp": True},
    "fiscalData": {
        "taxId": "URE180429TM6",
        "legalName": "UNIVERSIDAD ROBOTICA ESPAÑOLA",
        "taxSystem": "601",
        "cfdiUse": "G03",
        "zipCode": "86991",
    },
    "metadata": {"segment": "mayoreo"},
}
