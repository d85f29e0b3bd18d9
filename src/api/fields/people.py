"""The people, addresses and devices of a request.

A customer's detail that is absent stays as it was; one that is null is cleared. Keep the two apart.

What the domain stores with the same fields is a subclass of the domain's term here, with the interface's limits and
descriptions: it is used as it was decoded, and stored in the same bytes. (Compare fields rather than objects: structs
of two classes are never equal.)
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from api.decoding.field_errors import FieldErrors
from api.decoding.types import Country, Email, Id, TaxId, Text
from api.errors import ApiError, invalid, required
from api.fields.fiscal import CfdiUse, PaymentForm, TaxSystem, ZipCode, parse_receiver
from api.fields.values import email, one_of_aliases, printable
from ledger.domain.orders import terms
from ledger.operations.context.inputs import CustomerInput


class Customer(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The customer who pays: a known customer by `id`, or a new one by `externalId` or `email`.

    A known `externalId` is the same customer, who is updated with the details that are sent.
    """

    id: Annotated[Id | None, Meta(description="A known customer: the service's id or the merchant's own.")] = None
    customer_id: Annotated[Id | None, Meta(description="Alias of id.")] = None
    external_id: Annotated[Id | None, Meta(description="The merchant's id of the customer.")] = None
    first_name: Annotated[Text | None | UnsetType, Meta(description="Given name.")] = UNSET
    last_name: Annotated[Text | None | UnsetType, Meta(description="Family name.")] = UNSET
    email: Annotated[Email | None | UnsetType, Meta(description="E-mail address.", examples=["ana@example.com"])] = (
        UNSET
    )
    phone_number: Annotated[Text | None | UnsetType, Meta(description="Phone.", examples=["+525512345678"])] = UNSET


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


def customer_input(customer: Customer | None, customer_id: str | None) -> CustomerInput:
    """Returns the customer of a new order. `customer_id` is the alias at the top of the request (contract N8, N9).

    Raises ApiError (400).
    """
    if customer is None:
        if customer_id is None:
            raise required("customer")
        return CustomerInput(id=printable(customer_id, "customerId"))
    existing = one_of_aliases("customer.id", customer.id, "customer.customerId", customer.customer_id)
    existing = one_of_aliases("customer.id", existing, "customerId", customer_id)
    address = customer.email
    if address is not UNSET and address is not None:
        email(address, "customer.email")
    elif existing is None and customer.external_id is None:
        raise invalid("customer", "must have an id, an externalId or an email", "REQUIRED")
    return CustomerInput(
        id=printable(existing, "customer.id"),
        external_id=printable(customer.external_id, "customer.externalId"),
        first_name=customer.first_name,
        last_name=customer.last_name,
        email=address,
        phone_number=customer.phone_number,
    )


def check_customer(customer: Customer | None, customer_id: str | None, errors: FieldErrors) -> None:
    """Adds every error of the customer of a new order."""
    if customer is not None:
        known, new = Customer(id="-"), Customer(external_id="-")
        errors.check_alone(lambda each: customer_input(each, customer_id), customer, new, ("id", "customer_id"))
        errors.check_alone(lambda each: customer_input(each, None), customer, known, ("external_id",), ("email",))
    names = ("customerId", *(f"customer.{name}" for name in ("id", "customerId", "externalId", "email")))
    if not any(errors.has(name) for name in names):
        errors.check(customer_input, customer, customer_id)


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


def billing_address_required(sent: BillingAddress | None) -> ApiError:
    """Returns the 400 for a card without a billing address, whether none was sent or an empty one."""
    if sent is None:
        return required("billingAddress")
    return invalid("billingAddress", "must not be empty", "REQUIRED")


def fiscal_data(
    canonical: CustomerFiscalData | None,
    data: CustomerFiscalData | None,
    config: CustomerFiscalData | None,
    *,
    place: str = "customerFiscalData",
) -> terms.FiscalData | None:
    """Returns the receiver of the invoice, under any of its three names (contract N14).

    `place` is the one that the operation calls it by. Raises ApiError (400).
    """
    fiscal = one_of_aliases("customerFiscalData", canonical, "fiscalData", data)
    fiscal = one_of_aliases("customerFiscalData", fiscal, "fiscalConfig", config)
    if fiscal is None:
        return None
    return parse_receiver(fiscal, place)


def check_fiscal_data(sent: tuple[CustomerFiscalData | None, ...], errors: FieldErrors) -> None:
    """Adds every error of the receiver of the invoice, under its three names."""
    names = ("customerFiscalData", "fiscalData", "fiscalConfig")
    if not any(map(errors.has, names)):
        errors.check(fiscal_data, *sent)
    for each in sent:
        if each is not None:
            errors.check(parse_receiver, each, "customerFiscalData")
