"""SAT's rules for a CFDI, checked on its XML with lxml alone: no part of the builder and none of satcfdi.

The numbers are those of SAT's tables of validations for CFDI 4.0 and for the complement for payments 2.0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

from lxml import etree

CFDI, PAYMENTS = "{http://www.sat.gob.mx/cfd/4}", "{http://www.sat.gob.mx/Pagos20}"
CENTAVO = Decimal("0.01")
TINY = Decimal("1E-12")

# SAT c_TasaOCuota: fixed values, and ranges as (from, to), by tax, factor and whether it is withheld.
RATES: dict[tuple[str, str, bool], tuple[Any, ...]] = {
    ("002", "Tasa", False): ("0", "0.08", "0.16"),
    ("002", "Tasa", True): (("0", "0.16"),),
    ("001", "Tasa", True): (("0", "0.35"),),
    ("003", "Tasa", False): (
        "0.265",
        "0.3",
        "0.53",
        "0.5",
        "1.6",
        "0.304",
        "0.25",
        "0.09",
        "0.08",
        "0.07",
        "0.06",
        "0.03",
        "0",
    ),
    ("003", "Cuota", False): (("0", "61.5459"),),
}


def broken_rules(xml: bytes, invoice: bytes | None = None) -> list[str]:
    """Returns the rules that a document breaks, each with where.

    `invoice` is the XML of the invoice to which a receipt or a credit note refers.
    """
    root = etree.fromstring(xml)
    broken = list(_payment_rules(root) if root.get("TipoDeComprobante") == "P" else _sale_rules(root))
    return broken if invoice is None else [*broken, *_object_rules(root, etree.fromstring(invoice))]


def _object_rules(root: Any, invoice: Any) -> Iterator[str]:
    """What an invoice states as an object of tax stays one in a receipt or a credit note (SAT c_ObjetoImp)."""
    sold = {concept.get("ObjetoImp") for concept in invoice.iter(f"{CFDI}Concepto")}
    for related in root.iter(f"{PAYMENTS}DoctoRelacionado"):
        if (related.get("ObjetoImpDR") == "02") != ("02" in sold):
            yield f"ObjetoImpDR {related.get('ObjetoImpDR')} for an invoice whose concepts have {sorted(sold)}"
    if root.get("TipoDeComprobante") == "E":
        returned = {concept.get("ObjetoImp") for concept in root.iter(f"{CFDI}Concepto")}
        if not returned <= sold:
            yield f"ObjetoImp {sorted(returned)} for an invoice whose concepts have {sorted(sold)}"


def _sale_rules(root: Any) -> Iterator[str]:
    concepts = root.findall(f"{CFDI}Conceptos/{CFDI}Concepto")
    yield from _head_rules(root)
    for at, concept in enumerate(concepts):
        for rule in _concept_rules(concept):
            yield f"concept {at}: {rule}"
    if _money(root, "SubTotal") != sum(_number(concept, "Importe") for concept in concepts):
        yield "CFDI40109 SubTotal is the sum of Importe"
    discounts = [_number(concept, "Descuento") for concept in concepts if concept.get("Descuento")]
    if (root.get("Descuento") is not None) != bool(discounts) or _money(root, "Descuento") != sum(discounts):
        yield "CFDI40111 Descuento is the sum of the concepts'"
    taxes = root.find(f"{CFDI}Impuestos")
    total = _money(root, "SubTotal") - _money(root, "Descuento")
    if taxes is not None:
        total += _money(taxes, "TotalImpuestosTrasladados") - _money(taxes, "TotalImpuestosRetenidos")
    if _money(root, "Total") != total:
        yield "CFDI40119 Total is SubTotal - Descuento + transferred - withheld"
    rows = [row for concept in concepts for row in concept.iterfind(f"{CFDI}Impuestos/*/*")]
    yield from _summary_rules(rows, list(root.iterfind(f"{CFDI}Impuestos/*/*")), "", "")
    transferred = [row for row in rows if row.tag.endswith("Traslado") and row.get("Importe") is not None]
    withheld = [row for row in rows if row.tag.endswith("Retencion")]
    for name, of in (("TotalImpuestosTrasladados", transferred), ("TotalImpuestosRetenidos", withheld)):
        stated = None if taxes is None else taxes.get(name)
        if (stated is not None) != bool(of) or Decimal(stated or 0) != sum(_number(row, "Importe") for row in of):
            yield f"CFDI40202 {name} is the sum of the taxes"


def _head_rules(root: Any) -> Iterator[str]:
    if (root.get("Moneda") == "MXN") == (root.get("TipoCambio") is not None):
        yield "CFDI40115 TipoCambio comes with another currency than MXN"
    if root.get("TipoDeComprobante") == "I" and (root.get("MetodoPago") == "PPD") != (root.get("FormaPago") == "99"):
        yield "CFDI40105 a PPD invoice has the form 99"
    receiver = root.find(f"{CFDI}Receptor")
    if receiver.get("Rfc") in ("XAXX010101000", "XEXX010101000"):
        if receiver.get("RegimenFiscalReceptor") != "616":
            yield "CFDI40158 a generic RFC has the regime 616"
        if receiver.get("DomicilioFiscalReceptor") != root.get("LugarExpedicion"):
            yield "CFDI40149 a generic RFC has the place of issue"
    is_public = receiver.get("Nombre") == "PUBLICO EN GENERAL" and root.get("TipoDeComprobante") == "I"
    if is_public != (root.find(f"{CFDI}InformacionGlobal") is not None):
        yield "CFDI40130 InformacionGlobal comes with the public in general"


def _concept_rules(concept: Any) -> Iterator[str]:
    quantity, price, amount = (_number(concept, name) for name in ("Cantidad", "ValorUnitario", "Importe"))
    if price <= 0:
        yield "CFDI40166 ValorUnitario is above 0"
    half, cent = _half(concept, "Cantidad"), _half(concept, "ValorUnitario")
    low = ((quantity - half) * (price - cent)).quantize(CENTAVO, rounding=ROUND_FLOOR)
    high = ((quantity + half - TINY) * (price + cent - TINY)).quantize(CENTAVO, rounding=ROUND_CEILING)
    if not low <= amount <= high:
        yield f"CFDI40167 Importe {amount} is Cantidad x ValorUnitario, {low} to {high}"
    if not 0 <= _number(concept, "Descuento") <= amount:
        yield "CFDI40168 Descuento is at most Importe"
    rows = list(concept.iterfind(f"{CFDI}Impuestos/*/*"))
    if (concept.get("ObjetoImp") == "02") != bool(rows):
        yield "CFDI40171 an object of tax has taxes"
    for row in rows:
        yield from _tax_rules(row, "")


def _tax_rules(row: Any, suffix: str) -> Iterator[str]:
    base, withheld = _number(row, f"Base{suffix}"), "Retencion" in row.tag
    if base <= 0:
        yield "CFDI40174 Base is above 0"
    factor, rate = row.get(f"TipoFactor{suffix}"), row.get(f"TasaOCuota{suffix}")
    amount = row.get(f"Importe{suffix}")
    if factor == "Exento":
        if withheld or rate is not None or amount is not None:
            yield "CFDI40177 an exempt tax has no rate and no amount, and is not withheld"
        return
    allowed = RATES.get((row.get(f"Impuesto{suffix}"), factor, withheld), ())
    if not any(_allows(each, Decimal(rate)) for each in allowed):
        yield f"CFDI40179 the rate {rate} is in c_TasaOCuota"
    half = _half(row, f"Base{suffix}")
    low = ((base - half) * Decimal(rate)).quantize(CENTAVO, rounding=ROUND_FLOOR)
    high = ((base + half - TINY) * Decimal(rate)).quantize(CENTAVO, rounding=ROUND_CEILING)
    if not low <= Decimal(amount) <= high:
        yield f"CFDI40180 the tax {amount} on {base} at {rate} is {low} to {high}"


def _allows(entry: Any, rate: Decimal) -> bool:
    if isinstance(entry, tuple):
        return Decimal(entry[0]) <= rate <= Decimal(entry[1])
    return Decimal(entry) == rate


def _summary_rules(rows: list[Any], stated: list[Any], of: str, suffix: str) -> Iterator[str]:
    """The sums of the rows by tax: of a document's concepts, or of a payment's related documents."""
    sums = _sums(rows, of)
    keys = [_key(row, suffix) for row in stated]
    if len(set(keys)) < len(keys):
        yield "CFDI40204 each tax is stated once"
    if set(keys) != set(sums):
        yield f"CFDI40203 the taxes {sorted(sums)} are all stated"
        return
    for row in stated:
        base, amount = sums[_key(row, suffix)]
        if row.get(f"Base{suffix}") is not None and _number(row, f"Base{suffix}") != base.quantize(
            CENTAVO, rounding=ROUND_HALF_UP
        ):
            yield "CFDI40215 Base is the rounded sum of the rows' Base"
        if _number(row, f"Importe{suffix}") != amount:
            yield "CFDI40209 Importe is the sum of the rows' Importe"


def _payment_rules(root: Any) -> Iterator[str]:
    fixed = {"Moneda": "XXX", "SubTotal": "0", "Total": "0", "Exportacion": "01"}
    absent = ("FormaPago", "MetodoPago", "CondicionesDePago", "Descuento", "TipoCambio")
    if any(root.get(name) != value for name, value in fixed.items()) or any(root.get(name) for name in absent):
        yield "CRP20102 the head of a receipt is fixed"
    (concept,) = root.findall(f"{CFDI}Conceptos/{CFDI}Concepto")
    if dict(concept.attrib) != {
        "ClaveProdServ": "84111506", "Cantidad": "1", "ClaveUnidad": "ACT", "Descripcion": "Pago", "ValorUnitario": "0",
        "Importe": "0", "ObjetoImp": "01",
    } or len(concept):  # fmt: skip
        yield "CRP20113 the concept of a receipt is fixed"
    if root.find(f"{CFDI}Receptor").get("UsoCFDI") != "CP01":
        yield "CFDI40160 the use of a receipt is CP01"
    totals = root.find(f".//{PAYMENTS}Totales")
    (payment,) = root.iterfind(f".//{PAYMENTS}Pago")
    (related,) = payment.iterfind(f"{PAYMENTS}DoctoRelacionado")
    yield from _related_rules(payment, related)
    rows = list(related.iterfind(f"{PAYMENTS}ImpuestosDR/*/*"))
    yield from _summary_rules(rows, list(payment.iterfind(f"{PAYMENTS}ImpuestosP/*/*")), "DR", "P")
    keys = [(*_key(row, "DR"), row.get("TasaOCuotaDR")) for row in rows]
    if len(set(keys)) < len(keys):
        yield "satcfdi reads each tax of a related document once"
    yield from _totals_rules(payment, totals, rows)


def _related_rules(payment: Any, related: Any) -> Iterator[str]:
    before, paid, after = (_number(related, name) for name in ("ImpSaldoAnt", "ImpPagado", "ImpSaldoInsoluto"))
    if not (before > 0 and paid > 0 and after == before - paid >= 0):
        yield "CRP20244 ImpSaldoInsoluto is ImpSaldoAnt - ImpPagado"
    if _number(payment, "Monto") != paid or related.get("EquivalenciaDR") != "1":
        yield "CRP20217 Monto is what is paid"
    if payment.get("FormaDePagoP") == "99":
        yield "CRP20212 the form of a payment is known"
    if (payment.get("MonedaP") == "MXN") != (payment.get("TipoCambioP") == "1"):
        yield "CRP20215 TipoCambioP is 1 for MXN"
    rows = list(related.iterfind(f"{PAYMENTS}ImpuestosDR/*/*"))
    if (related.get("ObjetoImpDR") == "02") != bool(rows):
        yield "CRP20246, CRP20247 an object of tax has taxes, and nothing else has"
    for row in rows:
        yield from _tax_rules(row, "DR")


def _totals_rules(payment: Any, totals: Any, rows: list[Any]) -> Iterator[str]:
    expected: dict[str, Decimal] = defaultdict(Decimal)
    expected["MontoTotalPagos"] += _number(payment, "Monto")
    for row in rows:
        tax, amount = row.get("ImpuestoDR"), _number(row, "ImporteDR")
        if "Retencion" in row.tag:
            expected[{"001": "TotalRetencionesISR", "002": "TotalRetencionesIVA"}[tax]] += amount
        elif tax == "002" and row.get("TipoFactorDR") == "Exento":
            expected["TotalTrasladosBaseIVAExento"] += _number(row, "BaseDR")
        elif tax == "002":
            name = {"0.160000": "16", "0.080000": "8", "0.000000": "0"}[row.get("TasaOCuotaDR")]
            expected[f"TotalTrasladosBaseIVA{name}"] += _number(row, "BaseDR")
            expected[f"TotalTrasladosImpuestoIVA{name}"] += amount
    rate = _number(payment, "TipoCambioP")
    pesos = {name: (value * rate).quantize(CENTAVO, rounding=ROUND_HALF_UP) for name, value in expected.items()}
    if {name: Decimal(value) for name, value in totals.attrib.items()} != pesos:
        yield f"CRP20201 the totals are {pesos}"


def _sums(rows: list[Any], suffix: str) -> dict[tuple[str, ...], tuple[Decimal, Decimal]]:
    sums: dict[tuple[str, ...], tuple[Decimal, Decimal]] = {}
    for row in rows:
        base, amount = sums.get(_key(row, suffix), (Decimal(0), Decimal(0)))
        sums[_key(row, suffix)] = base + _number(row, f"Base{suffix}"), amount + _number(row, f"Importe{suffix}")
    return sums


def _key(row: Any, suffix: str) -> tuple[str, ...]:
    tax = row.get(f"Impuesto{suffix}")
    if "Retencion" in row.tag:
        return ("withheld", tax)
    return ("transferred", tax, row.get(f"TipoFactor{suffix}"), row.get(f"TasaOCuota{suffix}") or "")


def _number(node: Any, name: str) -> Decimal:
    return Decimal(node.get(name) or 0)


def _money(node: Any, name: str) -> Decimal:
    """An amount of the document, which has the currency's two decimals."""
    value = _number(node, name)
    assert value == value.quantize(CENTAVO), f"{name} {value}"
    return value


def _half(node: Any, name: str) -> Decimal:
    """Half a unit of the last decimal that is written."""
    written = node.get(name)
    return Decimal(5).scaleb(-1 - len(written.partition(".")[2]))
