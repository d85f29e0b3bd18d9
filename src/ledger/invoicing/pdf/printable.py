"""The values that a printed document shows, read from its stamped XML."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlencode

from msgspec import Struct

from ledger.invoicing.stamped_xml import CFD, XmlUnreadable, original_chain, parse_cfdi, stamp_of

PAGO: Final = "{http://www.sat.gob.mx/Pagos20}"
SANDBOX_PROVIDER: Final = "SPR190613I52"
"""The RFC of the simulated provider: its documents are worth nothing."""

_VERIFY: Final = "https://verificacfdi.facturaelectronica.sat.gob.mx/default.aspx"
_TAXES: Final = {"001": "ISR", "002": "IVA", "003": "IEPS"}


class Party(Struct, frozen=True, kw_only=True):
    """The issuer or the receiver. `zip_code` is the place of issue, or the receiver's fiscal address."""

    name: str
    rfc: str
    tax_system: str
    zip_code: str
    cfdi_use: str | None = None


class Tax(Struct, frozen=True, kw_only=True):
    """A tax: `rate` as SAT writes it, None for an exempt one and for a sum of withheld ones.

    Amounts are in major units of the currency.
    """

    name: str
    factor: str
    rate: Decimal | None
    amount: Decimal
    withheld: bool


class Line(Struct, frozen=True, kw_only=True):
    """One concept. Amounts in major units."""

    quantity: Decimal
    unit: str
    product_key: str
    description: str
    unit_price: Decimal
    amount: Decimal
    discount: Decimal
    taxes: tuple[Tax, ...]


class PaidDocument(Struct, frozen=True, kw_only=True):
    """The invoice that a payment was applied to. Amounts in major units."""

    fiscal_uuid: str
    number: str
    installment: str
    previous: Decimal
    paid: Decimal
    remaining: Decimal


class PaymentLine(Struct, frozen=True, kw_only=True):
    """One payment of a receipt."""

    paid_at: str
    form: str
    currency: str
    amount: Decimal
    documents: tuple[PaidDocument, ...]
    taxes: tuple[Tax, ...]


class Printable(Struct, frozen=True, kw_only=True):
    """A stamped document as it is printed. `kind` is SAT's type: I invoice, E credit note, P payment receipt."""

    kind: str
    number: str
    issued_at: str
    place: str
    issuer: Party
    receiver: Party
    currency: str
    exchange_rate: str | None
    payment_method: str | None
    payment_form: str | None
    relation: str | None
    related: tuple[str, ...]
    lines: tuple[Line, ...]
    payments: tuple[PaymentLine, ...]
    subtotal: Decimal
    discount: Decimal
    taxes: tuple[Tax, ...]
    total: Decimal
    fiscal_uuid: str
    stamped_at: str
    certificate: str
    sat_certificate: str
    provider_rfc: str
    seal: str
    sat_seal: str
    chain: str
    verify_url: str

    @property
    def is_test(self) -> bool:
        return self.provider_rfc == SANDBOX_PROVIDER


def read_printable(xml: bytes) -> Printable:
    """Returns the printed values of a stamped CFDI 4.0.

    Raises XmlUnreadable if the XML is no CFDI 4.0 or is not stamped.
    """
    root = parse_cfdi(xml)
    stamp = stamp_of(root)
    if stamp is None:
        raise XmlUnreadable("the document has no TimbreFiscalDigital")
    issuer, receiver = root.find(f"{CFD}Emisor"), root.find(f"{CFD}Receptor")
    related = root.find(f"{CFD}CfdiRelacionados")
    payments = tuple(_payment(each) for each in root.iterfind(f"{CFD}Complemento/{PAGO}Pagos/{PAGO}Pago"))
    taxes = root.find(f"{CFD}Impuestos")
    return Printable(
        kind=root.get("TipoDeComprobante"),
        number="-".join(part for part in (root.get("Serie"), root.get("Folio")) if part),
        issued_at=root.get("Fecha"),
        place=root.get("LugarExpedicion"),
        issuer=Party(
            name=issuer.get("Nombre"),
            rfc=issuer.get("Rfc"),
            tax_system=issuer.get("RegimenFiscal"),
            zip_code=root.get("LugarExpedicion"),
        ),
        receiver=Party(
            name=receiver.get("Nombre"),
            rfc=receiver.get("Rfc"),
            tax_system=receiver.get("RegimenFiscalReceptor"),
            zip_code=receiver.get("DomicilioFiscalReceptor"),
            cfdi_use=receiver.get("UsoCFDI"),
        ),
        currency=payments[0].currency if payments else root.get("Moneda"),
        exchange_rate=root.get("TipoCambio") if root.get("Moneda") not in ("MXN", "XXX") else None,
        payment_method=root.get("MetodoPago"),
        payment_form=root.get("FormaPago"),
        relation=None if related is None else related.get("TipoRelacion"),
        related=() if related is None else tuple(each.get("UUID").upper() for each in related),
        lines=() if payments else tuple(_line(each) for each in root.iterfind(f"{CFD}Conceptos/{CFD}Concepto")),
        payments=payments,
        subtotal=_amount(root, "SubTotal"),
        discount=_amount(root, "Descuento"),
        taxes=() if taxes is None else _taxes(taxes, CFD, ""),
        total=sum((each.amount for each in payments), Decimal(0)) if payments else _amount(root, "Total"),
        fiscal_uuid=stamp.get("UUID").upper(),
        stamped_at=stamp.get("FechaTimbrado"),
        certificate=root.get("NoCertificado"),
        sat_certificate=stamp.get("NoCertificadoSAT"),
        provider_rfc=stamp.get("RfcProvCertif"),
        seal=stamp.get("SelloCFD"),
        sat_seal=stamp.get("SelloSAT"),
        chain=original_chain(stamp, "1.1").decode(),
        verify_url=_verify_url(root, stamp),
    )


def _verify_url(root: Any, stamp: Any) -> str:
    """Returns the address of SAT's page about the document, as the QR code has it (Anexo 20, I.D)."""
    return f"{_VERIFY}?" + urlencode(
        {
            "id": stamp.get("UUID").upper(),
            "re": root.find(f"{CFD}Emisor").get("Rfc"),
            "rr": root.find(f"{CFD}Receptor").get("Rfc"),
            "tt": root.get("Total"),
            "fe": stamp.get("SelloCFD")[-8:],
        },
        safe="/=",
    )


def _line(concept: Any) -> Line:
    taxes = concept.find(f"{CFD}Impuestos")
    return Line(
        quantity=_amount(concept, "Cantidad"),
        unit=concept.get("Unidad") or concept.get("ClaveUnidad"),
        product_key=concept.get("ClaveProdServ"),
        description=concept.get("Descripcion"),
        unit_price=_amount(concept, "ValorUnitario"),
        amount=_amount(concept, "Importe"),
        discount=_amount(concept, "Descuento"),
        taxes=() if taxes is None else _taxes(taxes, CFD, ""),
    )


def _payment(payment: Any) -> PaymentLine:
    taxes = payment.find(f"{PAGO}ImpuestosP")
    return PaymentLine(
        paid_at=payment.get("FechaPago"),
        form=payment.get("FormaDePagoP"),
        currency=payment.get("MonedaP"),
        amount=_amount(payment, "Monto"),
        documents=tuple(
            PaidDocument(
                fiscal_uuid=each.get("IdDocumento").upper(),
                number="-".join(part for part in (each.get("Serie"), each.get("Folio")) if part),
                installment=each.get("NumParcialidad"),
                previous=_amount(each, "ImpSaldoAnt"),
                paid=_amount(each, "ImpPagado"),
                remaining=_amount(each, "ImpSaldoInsoluto"),
            )
            for each in payment.iterfind(f"{PAGO}DoctoRelacionado")
        ),
        taxes=() if taxes is None else _taxes(taxes, PAGO, "P"),
    )


def _taxes(parent: Any, space: str, suffix: str) -> tuple[Tax, ...]:
    """Returns the transferred and withheld taxes of an element. Those of a payment have names that end in P."""
    found = [(each, False) for each in parent.iterfind(f"{space}Traslados{suffix}/{space}Traslado{suffix}")]
    found += [(each, True) for each in parent.iterfind(f"{space}Retenciones{suffix}/{space}Retencion{suffix}")]
    return tuple(
        Tax(
            name=_TAXES.get(each.get(f"Impuesto{suffix}"), each.get(f"Impuesto{suffix}")),
            factor=each.get(f"TipoFactor{suffix}") or "Tasa",
            rate=None if each.get(f"TasaOCuota{suffix}") is None else _amount(each, f"TasaOCuota{suffix}"),
            amount=_amount(each, f"Importe{suffix}"),
            withheld=withheld,
        )
        for each, withheld in found
    )


def _amount(element: Any, name: str) -> Decimal:
    return Decimal(element.get(name) or 0)
