"""The people, addresses and devices of a request.

A customer's detail that is absent stays as it was; one that is null is cleared. Keep the two apart.

What the domain stores with the same fields is a subclass of the domain's term here, with the interface's limits and
descriptions: it is used as it was decoded, and stored in the same bytes. (Compare fields rather than objects: structs
of two classes are never equal.)
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from api.decoding.field_errors import FieldErrors
from api.decoding.types import Country, Email, Id, TaxId, Text, alias_of
from api.errors import invalid, required
from api.fields.fiscal import CfdiUse, PaymentForm, TaxSystem, ZipCode, parse_receiver
from api.fields.payment_method import PaymentMethod
from api.fields.values import email, one_of_aliases, phone, printable
from ledger.domain.orders import terms
from ledger.operations.context.inputs import CustomerInput


class PersonFields(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """What the bodies of customers and of orders have in common about a person."""

    first_name: Annotated[Text | None | UnsetType, Meta(description="Given name.")] = UNSET
    last_name: Annotated[Text | None | UnsetType, Meta(description="Family name.")] = UNSET
    email: Annotated[Email | None | UnsetType, Meta(description="E-mail address.", examples=["ana@example.com"])] = (
        UNSET
    )
    phone_number: Annotated[
        Annotated[Text, Meta(extra_json_schema={"pattern": "[0-9]"})] | None | UnsetType,
        Meta(description="Phone.", examples=["+525512345678"]),
    ] = UNSET


class Customer(PersonFields, frozen=True):  # without kw_only, its own fields come first
    """The customer who pays: a known customer by `id`, or a new one by `externalId` or `email`.

    A known `externalId` is the same customer, who is updated with the details that are sent.
    """

    id: Annotated[Id | None, Meta(description="A known customer: the service's id or the merchant's own.")] = None
    customer_id: Annotated[Id | None, alias_of("id")] = None
    external_id: Annotated[Id | None, Meta(description="The merchant's id of the customer.")] = None


class BillingAddress(
    terms.BillingAddress, frozen=True, kw_only=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True
):
    """The billing address of the card. Required with a card."""

    address: Annotated[Text | None, Meta(description="Street and number.")] = None
    city: Annotated[Text | None, Meta(description="City.")] = None
    state: Annotated[Text | None, Meta(description="State.")] = None
    postal_code: Annotated[Text | None, Meta(description="Postal code.")] = None
    country: Annotated[Country | None, Meta(description="ISO 3166 country code of two letters.")] = None


class DeviceInformation(
    terms.DeviceInformation, frozen=True, kw_only=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True
):
    """What the payer's browser reports about itself, for fraud checks."""

    ip_address: Annotated[Text | None, Meta(description="IP address.")] = None
    user_agent: Annotated[Text | None, Meta(description="User-Agent header.")] = None
    http_browser_language: Annotated[Text | None, Meta(description="Language of the browser.")] = None
    http_browser_screen_width: Annotated[Text | None, Meta(description="Width of the screen in pixels.")] = None
    http_browser_screen_height: Annotated[Text | None, Meta(description="Height of the screen in pixels.")] = None


class FiscalAddress(
    terms.FiscalAddress, frozen=True, kw_only=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True
):
    """The invoice receiver's address."""

    street: Annotated[Text | None, Meta(description="Street.")] = None
    exterior: Annotated[Text | None, Meta(description="House number.")] = None
    interior: Annotated[Text | None, Meta(description="Flat number.")] = None
    neighborhood: Annotated[Text | None, Meta(description="Colonia.")] = None
    city: Annotated[Text | None, Meta(description="City.")] = None
    municipality: Annotated[Text | None, Meta(description="Municipio or alcaldía.")] = None
    state: Annotated[Text | None, Meta(description="State.")] = None
    country: Annotated[Text | None, Meta(description="Country.")] = None


class CustomerFiscalData(
    terms.FiscalData, frozen=True, kw_only=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True
):
    """The receiver of the electronic invoice (CFDI). Every field is optional; the stamp operation accepts them too."""

    tax_id: Annotated[TaxId | None, Meta(description="RFC, 12 or 13 characters.", examples=["XAXX010101000"])] = None
    legal_name: Annotated[Text | None, Meta(description="The name as registered with the tax authority.")] = None
    tax_system: Annotated[
        TaxSystem | None,
        Meta(description="SAT c_RegimenFiscal, one that the taxId can have: a company's or a person's."),
    ] = None
    cfdi_use: Annotated[
        CfdiUse | None, Meta(description="SAT c_UsoCFDI, one that the taxSystem can have. In any case.")
    ] = None
    zip_code: Annotated[
        ZipCode | None, Meta(description="Postal code of the fiscal address, one of SAT c_CodigoPostal.")
    ] = None
    email: Annotated[Email | None, Meta(description="Where the invoice is sent.")] = None
    payment_form: Annotated[
        PaymentForm | None, Meta(description="SAT c_FormaPago, where no payment of the order shows it.")
    ] = None
    address: Annotated[FiscalAddress | None, Meta(description="Fiscal address.")] = None


CUSTOMERS: Final = "CUSTOMER"
"""In place of the receiver: the order takes the fiscal data of its customer."""

OrderReceiver = CustomerFiscalData | Literal["CUSTOMER"]


_IDS: Final = ("customerId", "customer.id", "customer.customerId", "customer.externalId", "customer.email")


def customer_input(customer: Customer | None, customer_id: str | None, errors: FieldErrors) -> CustomerInput | None:
    """Returns the customer of a new order, None if there is none. Adds the errors of its fields.

    `customer_id` is the alias at the top of the request (contract N8, N9).
    """
    if customer is None:
        if customer_id is not None:
            return CustomerInput(id=errors.check(printable, customer_id, "customerId"))
        if not errors.has("customerId"):
            errors.add(required("customer"))
        return None
    existing = None
    if customer.id is not None or customer.customer_id is not None or customer_id is not None:
        existing = errors.check(_existing, customer, customer_id)
    external_id = errors.check(printable, customer.external_id, "customer.externalId")
    address = customer.email
    if address is not UNSET and address is not None:
        errors.check(email, address, "customer.email")
    elif existing is None and external_id is None and not errors.has(*_IDS):
        errors.add(invalid("customer", "must have an id, an externalId or an email", "REQUIRED"))
    if isinstance(customer.phone_number, str):
        errors.check(phone, customer.phone_number, "customer.phoneNumber")
    return CustomerInput(
        id=existing,
        external_id=external_id,
        first_name=customer.first_name,
        last_name=customer.last_name,
        email=address,
        phone_number=customer.phone_number,
    )


def _existing(customer: Customer, customer_id: str | None) -> str | None:
    existing = one_of_aliases("customer.id", customer.id, "customer.customerId", customer.customer_id)
    return printable(one_of_aliases("customer.id", existing, "customerId", customer_id), "customer.id")


_NO_ADDRESS: Final = BillingAddress()


def billing_address(address: BillingAddress | None) -> terms.BillingAddress | None:
    """Returns where a card is billed, or None for an object without any value. Raises ApiError (400)."""
    if address is None:
        return None
    country = address.country
    if country is not None:
        if not (len(country) == 2 and country.isascii() and country.isalpha()):
            raise invalid(
                "billingAddress.country", "must be a country code of two letters such as MX", "INVALID_FORMAT"
            )
        if not country.isupper():
            return replace(address, country=country.upper())
    return None if address == _NO_ADDRESS else address


def require_billing_address(
    method: PaymentMethod, sent: BillingAddress | None, parsed: terms.BillingAddress | None, errors: FieldErrors
) -> None:
    """Adds an error if the method is a card and no billing address was sent, or an empty one."""
    if method.type == "card" and parsed is None and not errors.has("billingAddress"):
        empty = invalid("billingAddress", "must not be empty", "REQUIRED")
        errors.add(required("billingAddress") if sent is None else empty)


_FISCAL: Final = ("customerFiscalData", "fiscalData", "fiscalConfig")


def order_receiver(
    canonical: OrderReceiver | None, data: OrderReceiver | None, config: OrderReceiver | None, errors: FieldErrors
) -> tuple[terms.FiscalData | None, bool]:
    """Returns the receiver that an order brings, and whether it takes its customer's. Adds the errors of its fields."""
    own = tuple(None if isinstance(each, str) else each for each in (canonical, data, config))
    takes_customers = CUSTOMERS in (canonical, data, config)
    if takes_customers and any(each is not None for each in own) and not errors.has(*_FISCAL):
        errors.check(_require_one, canonical, data, config)
    return fiscal_data(own[0], own[1], own[2], errors), takes_customers


def fiscal_data(
    canonical: CustomerFiscalData | None,
    data: CustomerFiscalData | None,
    config: CustomerFiscalData | None,
    errors: FieldErrors,
    *,
    place: str = "customerFiscalData",
) -> terms.FiscalData | None:
    """Returns the receiver of the invoice, under any of its three names (contract N14). Adds the errors of its fields.

    `place` is the name that the operation calls it by.
    """
    sent = [each for each in (canonical, data, config) if each is not None]
    if len(sent) > 1 and not errors.has(*_FISCAL):
        errors.check(_require_one, canonical, data, config)
    parsed = [errors.check(parse_receiver, each, place) for each in sent]
    return parsed[0] if parsed else None


def _require_one(canonical: OrderReceiver | None, data: OrderReceiver | None, config: OrderReceiver | None) -> None:
    fiscal = one_of_aliases("customerFiscalData", canonical, "fiscalData", data)
    one_of_aliases("customerFiscalData", fiscal, "fiscalConfig", config)
