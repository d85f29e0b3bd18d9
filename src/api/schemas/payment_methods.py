"""How an order is paid, as it is sent: card data in the interface's two places and two spellings (contract N10, N11).

The rule a stranger would break: these hold card numbers and CVCs while a request lives. They print as stars, and nothing
keeps or logs them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from api.schemas.fields import CardNumber, Cvc, Id, Month, Text, Year


class CardDetails(Struct, frozen=True, kw_only=True, rename="camel"):
    """A card as the payer typed it."""

    number: Annotated[CardNumber | None, Meta(description="13 to 19 digits.", examples=["4242424242424242"])] = None
    expiry_month: Annotated[Month | None, Meta(description="1 or 01 to 12.", examples=["12"])] = None
    exp_month: Annotated[Month | None, Meta(description="Accepted for expiryMonth.")] = None
    expiry_year: Annotated[Year | None, Meta(description="Two or four digits.", examples=["30", "2030"])] = None
    exp_year: Annotated[Year | None, Meta(description="Accepted for expiryYear.")] = None
    cvc: Annotated[Cvc | None, Meta(description="3 or 4 digits. Never stored.", examples=["123"])] = None
    cardholder_name: Annotated[Text | None, Meta(description="As printed on the card.")] = None
    persist: Annotated[bool | None, Meta(description="Accepted for paymentMethod.persist.")] = None

    def __repr__(self) -> str:
        return "CardDetails(***)"


class MethodOptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """The older place of the card data."""

    card: Annotated[CardDetails | None, Meta(description="Accepted for paymentMethod.cardDetails.")] = None
    persist: Annotated[bool | None, Meta(description="Accepted for paymentMethod.persist.")] = None


class PaymentMethod(Struct, frozen=True, kw_only=True, rename="camel"):
    """How to pay. `card` needs cardDetails, `payment_method_id` needs paymentMethodId, the others nothing more."""

    type: Annotated[
        Literal["card", "payment_method_id", "spei", "paycash", "cie_cash_net"],
        Meta(description="A card, a saved card, a bank transfer, or cash by reference."),
    ]
    card_details: Annotated[CardDetails | None, Meta(description="The card, for type card.")] = None
    options: Annotated[MethodOptions | None, Meta(description="Accepted for cardDetails: options.card.")] = None
    persist: Annotated[bool | None, Meta(description="Save the card for later.")] = None
    payment_method_id: Annotated[Id | None, Meta(description="The saved method, for type payment_method_id.")] = None
    cvc: Annotated[Cvc | None, Meta(description="CVC of the saved card. Never stored.")] = None

    def __repr__(self) -> str:
        return f"PaymentMethod({self.type})"
