"""What a stamped CFDI states as money, read from its XML with lxml alone: for sums over many documents.

The kinds are those of the month's report. The amounts of a receipt are those of the invoice that it pays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from lxml import etree
from msgspec import Struct
from tests.invoicing.sat_rules import CFDI, PAYMENTS

_STAMP = "{http://www.sat.gob.mx/TimbreFiscalDigital}TimbreFiscalDigital"
_NAMES = {
    ("Traslado", "002"): "iva",
    ("Traslado", "003"): "ieps",
    ("Retencion", "002"): "ivaWithheld",
    ("Retencion", "001"): "isrWithheld",
}


class Stated(Struct, frozen=True, kw_only=True):
    """The money that a document states, in minor units. `month` is that of its date, as 2027-01. `taxes` are by their
    names in the month's report. `sold` is what the concepts with a number state, by that number.
    """

    kind: str
    fiscal_uuid: str
    month: str
    currency: str
    total: Decimal
    taxes: dict[str, Decimal]
    replaces: str | None
    sold: dict[str, Decimal]


def stated(xml: bytes) -> Stated:
    """Returns what a stamped document states."""
    root = etree.fromstring(xml)
    related = [each.get("TipoRelacion") for each in root.iterfind(f"{CFDI}CfdiRelacionados")]
    replaced = root.find(f"{CFDI}CfdiRelacionados/{CFDI}CfdiRelacionado") if related == ["04"] else None
    kind, currency, total = _amount(root)
    return Stated(
        kind=kind,
        fiscal_uuid=root.find(f".//{_STAMP}").get("UUID").lower(),
        month=root.get("Fecha")[:7],
        currency=currency,
        total=total * 100,
        taxes=_taxes(root),
        replaces=None if replaced is None else replaced.get("UUID").lower(),
        sold=_sold(root),
    )


def _amount(root: Any) -> tuple[str, str, Decimal]:
    """Returns a document's kind, its currency and its total, in units of the currency."""
    match root.get("TipoDeComprobante"):
        case "P":
            (paid,) = root.iter(f"{PAYMENTS}DoctoRelacionado")
            return "REP", paid.get("MonedaDR"), Decimal(paid.get("ImpPagado"))
        case "E":
            return "CREDIT_NOTE", root.get("Moneda"), Decimal(root.get("Total"))
        case _ if root.find(f"{CFDI}InformacionGlobal") is not None:
            return "INVOICE_GLOBAL", root.get("Moneda"), Decimal(root.get("Total"))
        case _:
            return f"INVOICE_{root.get('MetodoPago')}", root.get("Moneda"), Decimal(root.get("Total"))


def _taxes(root: Any) -> dict[str, Decimal]:
    sums = dict.fromkeys(_NAMES.values(), Decimal(0))
    for tag, tax, amount in _rows(root):
        sums[_NAMES[tag, tax]] += amount * 100
    return sums


def _rows(root: Any) -> Iterator[tuple[str, str, Decimal]]:
    """Yields the taxes of a document: those of its concepts, or of what a receipt pays."""
    for row in (
        *root.iterfind(f".//{CFDI}Concepto/{CFDI}Impuestos/*/*"),
        *root.iterfind(f".//{PAYMENTS}ImpuestosDR/*/*"),
    ):
        suffix = "DR" if row.tag.endswith("DR") else ""
        tag = etree.QName(row).localname.removesuffix("DR")
        yield tag, row.get(f"Impuesto{suffix}"), Decimal(row.get(f"Importe{suffix}") or 0)


def _sold(root: Any) -> dict[str, Decimal]:
    sums: Counter[str] = Counter()
    for concept in root.iter(f"{CFDI}Concepto"):
        if number := concept.get("NoIdentificacion"):
            taxes = (
                Decimal(row.get("Importe") or 0) * (-1 if row.tag.endswith("Retencion") else 1)
                for row in concept.iterfind(f"{CFDI}Impuestos/*/*")
            )
            net = Decimal(concept.get("Importe")) - Decimal(concept.get("Descuento") or 0)
            sums[number] += (net + sum(taxes)) * 100  # type: ignore[assignment]
    return dict(sums)
