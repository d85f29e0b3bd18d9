"""Labels, numbers and dates of printed documents in Spanish and English, and amounts in words.

Both write `$1,160.00 MXN`. A Spanish page writes `31 de enero de 2026`, an English one `January 31, 2026`.
"""

from __future__ import annotations

from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Final, Literal

from ledger.month_names import MONTHS

Language = Literal["es", "en"]

_CENT: Final = Decimal("0.01")

LABELS: Final[dict[str, dict[str, str]]] = {
    "es": {
        "I": "Factura", "E": "Nota de crédito", "P": "Recibo electrónico de pago",
        "number": "Folio", "issued": "Fecha de emisión", "stamped": "Fecha de certificación", "uuid": "Folio fiscal",
        "issuer": "Emisor", "receiver": "Receptor", "tax_system": "Régimen fiscal", "zip": "Domicilio fiscal (C.P.)",
        "place": "Lugar de expedición (C.P.)", "use": "Uso del CFDI", "method": "Método de pago",
        "form": "Forma de pago", "currency": "Moneda", "rate": "Tipo de cambio", "relation": "Relación",
        "related": "CFDI relacionado", "quantity": "Cant.", "unit": "Unidad", "key": "Clave", "text": "Descripción",
        "price": "Precio unitario", "amount": "Importe", "discount": "Descuento", "subtotal": "Subtotal",
        "total": "Total", "withheld": "ret.", "exempt": "exento", "paid_at": "Fecha de pago", "paid": "Pagado",
        "installment": "Parc.", "previous": "Saldo anterior", "remaining": "Saldo insoluto", "invoice": "Factura",
        "taxes": "Impuestos del pago", "certificate": "Certificado del emisor", "sat_certificate": "Certificado del SAT",
        "provider": "Proveedor de certificación (RFC)", "seal": "Sello digital del CFDI",
        "sat_seal": "Sello digital del SAT", "chain": "Cadena original del complemento de certificación digital",
        "printed": "Este documento es una representación impresa de un CFDI 4.0.", "page": "Página",
        "paid_with": "Pagado con", "reason": "Motivo de la devolución",
        "test": "DOCUMENTO DE PRUEBA: SIN VALIDEZ FISCAL", "type": "Tipo de comprobante",
    },
    "en": {
        "I": "Invoice", "E": "Credit note", "P": "Payment receipt",
        "number": "Number", "issued": "Issued", "stamped": "Certified", "uuid": "Fiscal UUID",
        "issuer": "Issuer", "receiver": "Customer", "tax_system": "Tax regime", "zip": "Fiscal postal code",
        "place": "Place of issue (postal code)", "use": "Use of the CFDI", "method": "Payment method",
        "form": "Payment form", "currency": "Currency", "rate": "Exchange rate", "relation": "Relation",
        "related": "Related CFDI", "quantity": "Qty.", "unit": "Unit", "key": "Key", "text": "Description",
        "price": "Unit price", "amount": "Amount", "discount": "Discount", "subtotal": "Subtotal",
        "total": "Total", "withheld": "withheld", "exempt": "exempt", "paid_at": "Paid", "paid": "Paid",
        "installment": "Inst.", "previous": "Previous balance", "remaining": "Remaining balance", "invoice": "Invoice",
        "taxes": "Taxes of the payment", "certificate": "Issuer's certificate", "sat_certificate": "SAT's certificate",
        "provider": "Certification provider (RFC)", "seal": "Digital seal of the CFDI",
        "sat_seal": "Digital seal of SAT", "chain": "Original chain of the certification",
        "printed": "This document is a printed representation of a CFDI 4.0.", "page": "Page",
        "paid_with": "Paid with", "reason": "Reason of the refund",
        "test": "TEST DOCUMENT: NO FISCAL VALIDITY", "type": "Type of document",
    },
}  # fmt: skip


def money(amount: Decimal, currency: str) -> str:
    """Returns an amount in major units as people in Mexico write it, with at least two decimals: `$1,160.00 MXN`."""
    return f"{'-' if amount < 0 else ''}${number(abs(amount), decimals=2)} {currency}"


def unit_price(price: Decimal, quantity: Decimal, amount: Decimal) -> str:
    """Returns the price of one unit with two decimals, or with all that it has if its line's amount needs them.

    An invoice states a price before taxes with up to six decimals, of which most lines need two.
    """
    short = price.quantize(_CENT, rounding=ROUND_HALF_UP)
    is_enough = (short * quantity).quantize(_CENT, rounding=ROUND_HALF_UP) == amount
    return number(short if is_enough else price, decimals=2)


def number(value: Decimal, *, decimals: int = 0) -> str:
    """Returns a number with commas between thousands (Mexico writes them as English does), no zeros at its end beyond
    `decimals`.
    """
    whole, _, fraction = f"{value:f}".partition(".")
    fraction = fraction.rstrip("0").ljust(decimals, "0")
    return (
        f"{int(whole):,}{'.' if fraction else ''}{fraction}" if value >= 0 else f"-{number(-value, decimals=decimals)}"
    )


def percent(rate: Decimal) -> str:
    """Returns a rate as per cent: 0.160000 is 16%."""
    return f"{number(rate * 100)}%"


def moment(text: str, language: Language) -> str:
    """Returns a local time of the document, an ISO 8601 text, as people of the language write it."""
    at = datetime.fromisoformat(text)
    month = MONTHS[language][at.month - 1]
    if language == "es":
        return f"{at.day} de {month} de {at.year}, {at:%H:%M:%S}"
    return f"{month} {at.day}, {at.year}, {at:%H:%M:%S}"


def in_words(amount: Decimal, currency: str, language: Language) -> str:
    """Returns an amount in words, with the cents as a fraction: `UN MIL CIENTO SESENTA PESOS 00/100 M.N.`."""
    whole = int(amount)
    cents = int((amount - whole) * 100)
    one = whole == 1
    if language == "en":
        unit = {"MXN": "PESO" if one else "PESOS", "USD": "DOLLAR" if one else "DOLLARS"}.get(currency, currency)
        return f"{_english(whole)} {unit} {cents:02}/100 {currency}".upper()
    words = _spanish(whole)
    unit = {"MXN": "PESO" if one else "PESOS", "USD": "DÓLAR" if one else "DÓLARES"}.get(currency, currency)
    of = " DE" if whole >= 1_000_000 and whole % 1_000_000 == 0 else ""
    return f"{words}{of} {unit} {cents:02}/100 {'M.N.' if currency == 'MXN' else currency}".upper()


_ES: Final = [
    "cero",
    "un",
    "dos",
    "tres",
    "cuatro",
    "cinco",
    "seis",
    "siete",
    "ocho",
    "nueve",
    "diez",
    "once",
    "doce",
    "trece",
    "catorce",
    "quince",
    "dieciséis",
    "diecisiete",
    "dieciocho",
    "diecinueve",
    "veinte",
    "veintiún",
    "veintidós",
    "veintitrés",
    "veinticuatro",
    "veinticinco",
    "veintiséis",
    "veintisiete",
    "veintiocho",
    "veintinueve",
]
_ES_TENS: Final = ["-", "-", "-", "treinta", "cuarenta", "cincuenta", "sesenta", "setenta", "ochenta", "noventa"]
_ES_HUNDREDS: Final = [
    "-",
    "ciento",
    "doscientos",
    "trescientos",
    "cuatrocientos",
    "quinientos",
    "seiscientos",
    "setecientos",
    "ochocientos",
    "novecientos",
]


def _spanish(value: int) -> str:
    """Returns a number below a million millions in words, as it precedes a masculine noun (un, veintiún)."""
    if value >= 1_000_000:
        millions, rest = divmod(value, 1_000_000)
        head = "un millón" if millions == 1 else f"{_spanish(millions)} millones"
        return head + (f" {_spanish(rest)}" if rest else "")
    if value >= 1000:
        thousands, rest = divmod(value, 1000)
        return f"{_spanish(thousands)} mil" + (f" {_spanish(rest)}" if rest else "")
    if value == 100:
        return "cien"
    if value > 100:
        return _ES_HUNDREDS[value // 100] + (f" {_spanish(value % 100)}" if value % 100 else "")
    if value < len(_ES):
        return _ES[value]
    tens = _ES_TENS[value // 10]
    return f"{tens} y {_ES[value % 10]}" if value % 10 else tens


_EN: Final = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_EN_TENS: Final = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def _english(value: int) -> str:
    for size, name in ((1_000_000_000, "billion"), (1_000_000, "million"), (1000, "thousand"), (100, "hundred")):
        if value >= size:
            head = f"{_english(value // size)} {name}"
            return head + (f" {_english(value % size)}" if value % size else "")
    if value < len(_EN):
        return _EN[value]
    return _EN_TENS[value // 10] + (f"-{_EN[value % 10]}" if value % 10 else "")
