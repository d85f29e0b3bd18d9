"""The receiver of an electronic invoice, as a merchant gives it: with an order, or once for a customer.

These shapes are stored inside events. Add a field only with a default, and never rename one.
"""

from __future__ import annotations

from msgspec import Struct, to_builtins


class FiscalAddress(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The address on a Mexican electronic invoice."""

    street: str | None = None
    exterior: str | None = None
    interior: str | None = None
    neighborhood: str | None = None
    city: str | None = None
    municipality: str | None = None
    state: str | None = None
    country: str | None = None


class FiscalData(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The receiver of a Mexican electronic invoice (contract N14). `tax_id` is an RFC of 12 or 13 characters."""

    tax_id: str | None = None
    legal_name: str | None = None
    tax_system: str | None = None
    cfdi_use: str | None = None
    zip_code: str | None = None
    email: str | None = None
    payment_form: str | None = None
    address: FiscalAddress | None = None


def is_same(one: FiscalData | None, other: FiscalData | None) -> bool:
    """Returns whether two receivers have equal fields. Structs of two classes are never equal."""
    return bool(to_builtins(one) == to_builtins(other))
