"""The texts of the sandbox's pages for payers, in Spanish and in English."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ledger.domain.orders.statuses import NextAction


class PayerTexts(Struct, frozen=True, kw_only=True):
    """The texts of all pages in one language. A pair is a title and its paragraph."""

    language: str
    sandbox: str
    not_found: tuple[str, str]
    ended: tuple[str, str]
    device_check: tuple[str, str]
    proceed: str
    device_checked: tuple[str, str]
    questions: dict[NextAction, tuple[str, str]]
    saving: tuple[str, str]
    merchant: str
    amount: str
    card: str
    accept: str
    refuse: str
    accept_card: str
    refuse_card: str
    accepted: tuple[str, str]
    refused: tuple[str, str]
    card_confirmed: tuple[str, str]
    card_refused: tuple[str, str]
    back: str
    for_developers: str
    next_step: str
    next_step_accepted: str
    next_step_refused: str


_SPANISH: Final = PayerTexts(
    language="es",
    sandbox="Entorno de pruebas: aquí no se mueve dinero.",
    not_found=(
        "Esta página no existe",
        "La dirección no corresponde a ningún pago. Vuelve a la tienda e inténtalo de nuevo.",
    ),
    ended=(
        "Esta sesión ya terminó",
        "El pago ya terminó o la tienda inició otro paso. Vuelve a la tienda para ver el estado del pago.",
    ),
    device_check=("Un momento, por favor", "Revisamos tu navegador para proteger tu pago. Toma un instante."),
    proceed="Continuar",
    device_checked=("Listo", "La revisión de tu navegador terminó. Vuelve a la tienda, que continúa con el pago."),
    questions={
        NextAction.CHALLENGE: ("Confirma tu compra", "Tu banco te pide confirmar este pago con tarjeta."),
        NextAction.REDIRECT: ("Autoriza tu pago", "La tienda te envió aquí para autorizar este pago."),
    },
    saving=("Confirma tu tarjeta", "La tienda quiere guardar esta tarjeta. No se hace ningún cargo."),
    merchant="Comercio",
    amount="Importe",
    card="Tarjeta",
    accept="Confirmar el pago",
    refuse="Rechazar el pago",
    accept_card="Confirmar la tarjeta",
    refuse_card="No guardar la tarjeta",
    accepted=("Confirmaste el pago", "Vuelve a la tienda, que termina el pago. Ya puedes cerrar esta página."),
    refused=("Rechazaste el pago", "No se hará ningún cargo. Vuelve a la tienda si quieres pagar de otra forma."),
    card_confirmed=("Confirmaste tu tarjeta", "Vuelve a la tienda, que la guarda. Ya puedes cerrar esta página."),
    card_refused=("No confirmaste tu tarjeta", "La tienda no la guarda, y no se hizo ningún cargo."),
    back="Volver a la tienda",
    for_developers="Para el equipo de desarrollo",
    next_step="El siguiente paso es de tu servidor:",
    next_step_accepted="El siguiente paso es de tu servidor, y responde 200:",
    next_step_refused="El siguiente paso es de tu servidor, y responde 422 PAYER_AUTHENTICATION_FAILED:",
)
_ENGLISH: Final = PayerTexts(
    language="en",
    sandbox="Test environment: no money moves here.",
    not_found=(
        "This page does not exist",
        "The address belongs to no payment. Go back to the shop and try again.",
    ),
    ended=(
        "This session has ended",
        "The payment has ended, or the shop has begun another step. Go back to the shop to see how the payment went.",
    ),
    device_check=("One moment, please", "We are checking your browser to protect your payment. This is quick."),
    proceed="Continue",
    device_checked=("Done", "Your browser has been checked. Go back to the shop, which continues with the payment."),
    questions={
        NextAction.CHALLENGE: ("Confirm your purchase", "Your bank asks you to confirm this card payment."),
        NextAction.REDIRECT: ("Authorise your payment", "The shop sent you here to authorise this payment."),
    },
    saving=("Confirm your card", "The shop wants to save this card. You are not charged."),
    merchant="Shop",
    amount="Amount",
    card="Card",
    accept="Confirm the payment",
    refuse="Refuse the payment",
    accept_card="Confirm the card",
    refuse_card="Do not save the card",
    accepted=(
        "You confirmed the payment",
        "Go back to the shop, which completes the payment. You can close this page now.",
    ),
    refused=("You refused the payment", "You will not be charged. Go back to the shop to pay in another way."),
    card_confirmed=("You confirmed your card", "Go back to the shop, which saves it. You can close this page now."),
    card_refused=("You did not confirm your card", "The shop does not save it, and you were not charged."),
    back="Back to the shop",
    for_developers="For the development team",
    next_step="The next step is your server's:",
    next_step_accepted="The next step is your server's, and is answered 200:",
    next_step_refused="The next step is your server's, and is answered 422 PAYER_AUTHENTICATION_FAILED:",
)
TEXTS: Final = {each.language: each for each in (_SPANISH, _ENGLISH)}
