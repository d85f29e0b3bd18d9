"""The people and addresses of a request, in the ledger's words.

The rule a stranger would break: a customer's detail that is absent stays as it was, one that is null is cleared. The two
must not be folded into one.
"""

from __future__ import annotations

from msgspec import UnsetType

from api.drafting.values import email, pick, printable, tax_id
from api.refusals import Refusal, invalid, required
from api.schemas import customers as sent
from ledger.operations.drafts import CustomerDraft
from ledger.orders.terms import BillingAddress, DeviceInformation, FiscalAddress, FiscalData


def customer_draft(customer: sent.Customer | None, customer_id: str | None) -> CustomerDraft:
    """The customer of a new order; `customer_id` is the alias at the top of the request (contract N8, N9)."""
    if customer is None:
        if customer_id is None:
            raise required("customer")
        return CustomerDraft(id=printable(customer_id, "customerId"))
    known = pick("customer.id", customer.id, "customer.customerId", customer.customer_id)
    known = pick("customer.id", known, "customerId", customer_id)
    address = customer.email
    if not isinstance(address, UnsetType) and address is not None:
        email(address, "customer.email")
    elif known is None and customer.external_id is None:
        raise invalid("customer", "must have an id, an externalId or an email", "REQUIRED")
    return CustomerDraft(
        id=printable(known, "customer.id"),
        external_id=printable(customer.external_id, "customer.externalId"),
        first_name=customer.first_name,
        last_name=customer.last_name,
        email=address,
        phone_number=customer.phone_number,
    )


def billing_address(address: sent.BillingAddress | None) -> BillingAddress | None:
    """Where a card is billed; an object without anything in it is none."""
    if address is None:
        return None
    country = address.country
    if country is not None:
        if not (len(country) == 2 and country.isascii() and country.isalpha()):
            raise invalid(
                "billingAddress.country", "must be a country code of two letters such as MX", "INVALID_FORMAT"
            )
        country = country.upper()
    billing = BillingAddress(
        address=address.address,
        city=address.city,
        state=address.state,
        postal_code=address.postal_code,
        country=country,
    )
    return None if billing == BillingAddress() else billing


def without_billing_address(sent_address: sent.BillingAddress | None) -> Refusal:
    """The 400 about a card without one, whether none was sent or an empty one."""
    if sent_address is None:
        return required("billingAddress")
    return invalid("billingAddress", "must not be empty", "REQUIRED")


def device_information(device: sent.DeviceInformation | None) -> DeviceInformation | None:
    """What the payer's browser tells about itself."""
    if device is None:
        return None
    return DeviceInformation(
        ip_address=device.ip_address,
        user_agent=device.user_agent,
        http_browser_language=device.http_browser_language,
        http_browser_screen_width=device.http_browser_screen_width,
        http_browser_screen_height=device.http_browser_screen_height,
    )


def fiscal_data(
    canonical: sent.CustomerFiscalData | None,
    data: sent.CustomerFiscalData | None,
    config: sent.CustomerFiscalData | None,
) -> FiscalData | None:
    """Who gets the invoice, under any of the three names (contract N14)."""
    fiscal = pick("customerFiscalData", canonical, "fiscalData", data)
    fiscal = pick("customerFiscalData", fiscal, "fiscalConfig", config)
    if fiscal is None:
        return None
    return FiscalData(
        tax_id=None if fiscal.tax_id is None else tax_id(fiscal.tax_id, "customerFiscalData.taxId"),
        legal_name=fiscal.legal_name,
        tax_system=fiscal.tax_system,
        cfdi_use=fiscal.cfdi_use,
        zip_code=fiscal.zip_code,
        email=None if fiscal.email is None else email(fiscal.email, "customerFiscalData.email"),
        payment_form=fiscal.payment_form,
        address=None if fiscal.address is None else _fiscal_address(fiscal.address),
    )


def _fiscal_address(address: sent.FiscalAddress) -> FiscalAddress:
    return FiscalAddress(
        street=address.street,
        exterior=address.exterior,
        interior=address.interior,
        neighborhood=address.neighborhood,
        city=address.city,
        municipality=address.municipality,
        state=address.state,
        country=address.country,
    )
