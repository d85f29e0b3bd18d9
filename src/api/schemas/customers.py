"""The people and addresses of an order: the customer, where a card is billed, the payer's device, the invoice's receiver.

The rule a stranger would break: all of this is personal data. It is stored where it can be erased, and never logged.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from api.schemas.fields import Country, Email, Id, TaxId, Text


class Customer(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who pays: a known customer by `id`, or a new one by `externalId` or `email`.

    An `externalId` that is already known is the same customer, and the details given here bring it up to date.
    """

    id: Annotated[Id | None, Meta(description="A known customer: the service's id or the merchant's own.")] = None
    customer_id: Annotated[Id | None, Meta(description="Accepted for id.")] = None
    external_id: Annotated[Id | None, Meta(description="The merchant's id of the customer.")] = None
    first_name: Annotated[Text | None | UnsetType, Meta(description="Given name.")] = UNSET
    last_name: Annotated[Text | None | UnsetType, Meta(description="Family name.")] = UNSET
    email: Annotated[Email | None | UnsetType, Meta(description="E-mail address.", examples=["ana@example.com"])] = (
        UNSET
    )
    phone_number: Annotated[Text | None | UnsetType, Meta(description="Phone.", examples=["+525512345678"])] = UNSET


class BillingAddress(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the card is billed. Required with a card."""

    address: Annotated[Text | None, Meta(description="Street and number.")] = None
    city: Annotated[Text | None, Meta(description="City.")] = None
    state: Annotated[Text | None, Meta(description="State.")] = None
    postal_code: Annotated[Text | None, Meta(description="Postal code.")] = None
    country: Annotated[Country | None, Meta(description="ISO 3166 country code of two letters.")] = None


class DeviceInformation(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the payer's browser tells about itself, for fraud checks."""

    ip_address: Annotated[Text | None, Meta(description="IP address.")] = None
    user_agent: Annotated[Text | None, Meta(description="User-Agent header.")] = None
    http_browser_language: Annotated[Text | None, Meta(description="Language of the browser.")] = None
    http_browser_screen_width: Annotated[Text | None, Meta(description="Width of the screen in pixels.")] = None
    http_browser_screen_height: Annotated[Text | None, Meta(description="Height of the screen in pixels.")] = None


class FiscalAddress(Struct, frozen=True, kw_only=True, rename="camel"):
    """The invoice receiver's address."""

    street: Annotated[Text | None, Meta(description="Street.")] = None
    exterior: Annotated[Text | None, Meta(description="Number of the house.")] = None
    interior: Annotated[Text | None, Meta(description="Number of the flat.")] = None
    neighborhood: Annotated[Text | None, Meta(description="Colonia.")] = None
    city: Annotated[Text | None, Meta(description="City.")] = None
    municipality: Annotated[Text | None, Meta(description="Municipio or alcaldía.")] = None
    state: Annotated[Text | None, Meta(description="State.")] = None
    country: Annotated[Text | None, Meta(description="Country.")] = None


class CustomerFiscalData(Struct, frozen=True, kw_only=True, rename="camel"):
    """The receiver of the electronic invoice (CFDI). Everything is optional and may come with the stamp operation."""

    tax_id: Annotated[TaxId | None, Meta(description="RFC, 12 or 13 characters.", examples=["XAXX010101000"])] = None
    legal_name: Annotated[Text | None, Meta(description="Name as the tax authority has it.")] = None
    tax_system: Annotated[Text | None, Meta(description="SAT c_RegimenFiscal.", examples=["601"])] = None
    cfdi_use: Annotated[Text | None, Meta(description="SAT c_UsoCFDI.", examples=["G03"])] = None
    zip_code: Annotated[Text | None, Meta(description="Postal code of the fiscal address.")] = None
    email: Annotated[Email | None, Meta(description="Where the invoice is sent.")] = None
    payment_form: Annotated[Text | None, Meta(description="SAT c_FormaPago.", examples=["04"])] = None
    address: Annotated[FiscalAddress | None, Meta(description="Fiscal address.")] = None
