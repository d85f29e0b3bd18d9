"""SAT's rules for a CFDI 4.0 and its complement for payments 2.0, as far as a document shows them by itself.

The codes and words are those of SAT's tables of errors ("matriz de errores" of CFDI 4.0 and of Pagos 2.0), with which
every provider of production answers. What SAT's registers of taxpayers know is left out: the name, the postal code and
the regime of one RFC. A document has passed the schemas (`schema`) before it comes here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Any, Final

from ledger.domain.invoices.rates import wrong_tax
from ledger.domain.invoices.receivers import (
    PAYMENT,
    PAYMENT_FORMS,
    PUBLIC_NAME,
    REGIMES,
    USES,
    is_generic,
    regimes_of,
    uses_of,
)
from ledger.domain.orders.invoices.terms import EXEMPT, FEE, IEPS, ISR, IVA, PUBLIC_IN_GENERAL, RATE
from ledger.domain.orders.terms import Tax
from ledger.invoicing.catalogs import is_currency, is_postal_code, is_product_key, is_unit_key
from ledger.invoicing.contract import Refused
from ledger.invoicing.stamped_xml import CFD

PAGO: Final = "{http://www.sat.gob.mx/Pagos20}"
_CENT: Final = Decimal("0.01")
_TINY: Final = Decimal("1E-12")
_NOTHING: Final = Decimal(0)
_TAXES: Final = {"001": ISR, "002": IVA, "003": IEPS}
_FACTORS: Final = (RATE, FEE, EXEMPT)
_RELATIONS: Final = tuple(f"{number:02}" for number in range(1, 8))
_OBJECTS: Final = tuple(f"{number:02}" for number in range(1, 9))
_TAXED: Final = "02"
_PERIODS: Final = ("01", "02", "03", "04", "05")

Fault = tuple[str, str]
"""SAT's code and its words."""


def check_rules(root: Any) -> Refused | None:
    """Returns SAT's refusal of a Comprobante for the first rule that it breaks, None if it breaks none."""
    is_payment = root.get("TipoDeComprobante") == "P"
    parts: tuple[Callable[[Any], Iterator[Fault]], ...] = (_head, _parties, _concepts)
    parts += (_fixed_head, _payments) if is_payment else (_sums, _summary)
    for part in parts:
        for code, message in part(root):
            return Refused(code=code, message=message)
    return None


def _not_in(field: str, catalogue: str) -> str:
    return f"El campo {field}, no contiene un valor del catálogo {catalogue}."


# ------------------------------------------------------------------------------------------------------------- the head


def _head(root: Any) -> Iterator[Fault]:
    if root.get("TipoDeComprobante") not in ("I", "E", "P"):
        yield "CFDI40121", _not_in("TipoDeComprobante", "c_TipoDeComprobante")
    yield from _payment_terms(root)
    yield from _currency(root)
    if root.get("Exportacion") != "01":
        yield "CFDI40123", _not_in("Exportacion", "c_Exportacion")
    if not is_postal_code(root.get("LugarExpedicion")):
        yield "CFDI40126", _not_in("LugarExpedicion", "c_CodigoPostal")
    yield from _global(root)
    for related in root.iterfind(f"{CFD}CfdiRelacionados"):
        if related.get("TipoRelacion") not in _RELATIONS:
            yield "CFDI40137", _not_in("TipoRelacion", "c_TipoRelacion")


def _payment_terms(root: Any) -> Iterator[Fault]:
    form, method, is_payment = root.get("FormaPago"), root.get("MetodoPago"), root.get("TipoDeComprobante") == "P"
    if is_payment and form is not None:
        yield "CFDI40103", "Si el TipoDeComprobante es T, N o P, el campo FormaPago no debe existir."
    if form is not None and form not in PAYMENT_FORMS:
        yield "CFDI40104", _not_in("FormaPago", "c_FormaPago")
    if method == "PPD" and form != "99":
        yield "CFDI40105", "El campo FormaPago no contiene el valor 99."
    if method is not None and method not in ("PUE", "PPD"):
        yield "CFDI40124", _not_in("MetodoPago", "c_MetodoPago")
    if is_payment and method is not None:
        yield "CFDI40125", "Se debe omitir el campo MetodoPago cuando el TipoDeComprobante es T o P."


def _currency(root: Any) -> Iterator[Fault]:
    currency, rate = root.get("Moneda"), root.get("TipoCambio")
    if not is_currency(currency):
        yield "CFDI40113", _not_in("Moneda", "c_Moneda")
    if currency == "MXN" and rate is not None and Decimal(rate) != 1:
        yield "CFDI40114", 'El campo TipoCambio no tiene el valor "1" y la moneda indicada es MXN.'
    if currency not in ("MXN", "XXX") and rate is None:
        message = "El campo TipoCambio se debe registrar cuando el campo Moneda tiene un valor distinto de MXN y XXX."
        yield "CFDI40115", message
    if currency == "XXX" and rate is not None:
        yield "CFDI40116", "El campo TipoCambio no se debe registrar cuando el campo Moneda tiene el valor XXX."


def _global(root: Any) -> Iterator[Fault]:
    """Yields the faults of InformacionGlobal, which an invoice to the public in general has, and no other document."""
    about, receiver = root.find(f"{CFD}InformacionGlobal"), root.find(f"{CFD}Receptor")
    is_public = receiver.get("Rfc") == PUBLIC_IN_GENERAL and receiver.get("Nombre") == PUBLIC_NAME
    if (about is not None) != (is_public and root.get("TipoDeComprobante") == "I"):
        yield (
            "CFDI40130",
            (
                'El campo Rfc del nodo receptor debe contener valor "XAXX010101000" y el valor del campo Nombre del nodo '
                'Receptor debe contener el valor "PUBLICO EN GENERAL".'
            ),
        )
    if about is None:
        return
    period, months = about.get("Periodicidad"), about.get("Meses")
    if period not in _PERIODS:
        yield "CFDI40131", _not_in("Periodicidad", "c_Periodicidad")
    if not (months.isdigit() and 1 <= int(months) <= 18):
        yield "CFDI40133", _not_in("Meses", "c_Meses")


def _parties(root: Any) -> Iterator[Fault]:
    issuer, receiver = root.find(f"{CFD}Emisor"), root.find(f"{CFD}Receptor")
    rfc, regime = receiver.get("Rfc"), receiver.get("RegimenFiscalReceptor")
    use, zip_code = receiver.get("UsoCFDI"), receiver.get("DomicilioFiscalReceptor")
    if issuer.get("RegimenFiscal") not in REGIMES:
        yield "CFDI40140", _not_in("RegimenFiscal", "c_RegimenFiscal")
    if issuer.get("RegimenFiscal") not in regimes_of(issuer.get("Rfc")):
        yield "CFDI40141", "La clave del campo RegimenFiscal debe corresponder con el tipo de persona (física o moral)."
    if is_generic(rfc) and zip_code != root.get("LugarExpedicion"):
        yield (
            "CFDI40149",
            "El campo DomicilioFiscalReceptor del receptor, debe ser igual al valor del campo LugarExpedicion.",
        )
    if not is_postal_code(zip_code):
        yield (
            "CFDI40148",
            (
                "El campo DomicilioFiscalReceptor del receptor, debe pertenecer al nombre asociado al RFC registrado en el "
                "campo Rfc del Receptor."
            ),
        )
    if regime not in REGIMES:
        yield "CFDI40157", _not_in("RegimenFiscalReceptor", "c_RegimenFiscal")
    if regime not in regimes_of(rfc):
        yield (
            "CFDI40158",
            "La clave del campo RegimenFiscalReceptor debe corresponder con el tipo de persona (física o moral).",
        )
    if use not in (*USES, PAYMENT):
        yield "CFDI40160", _not_in("UsoCFDI", "c_UsoCFDI")
    allowed = (PAYMENT,) if root.get("TipoDeComprobante") == "P" else uses_of(rfc, regime)
    if use not in allowed:
        yield (
            "CFDI40161",
            (
                "La clave del campo UsoCFDI debe corresponder con el tipo de persona (física o moral) y el régimen "
                "correspondiente conforme al catálogo c_UsoCFDI."
            ),
        )


# --------------------------------------------------------------------------------------------------------- the concepts


def _concepts(root: Any) -> Iterator[Fault]:
    is_payment = root.get("TipoDeComprobante") == "P"
    for concept in root.iterfind(f"{CFD}Conceptos/{CFD}Concepto"):
        if not is_product_key(concept.get("ClaveProdServ")):
            yield "CFDI40162", _not_in("ClaveProdServ", "c_ClaveProdServ")
        if not is_unit_key(concept.get("ClaveUnidad")):
            yield "CFDI40165", _not_in("ClaveUnidad", "c_ClaveUnidad")
        if concept.get("ObjetoImp") not in _OBJECTS:
            yield "CFDI40170", _not_in("ObjetoImp", "c_ObjetoImp")
        if not is_payment:
            yield from _concept(concept)


def _concept(concept: Any) -> Iterator[Fault]:
    price, amount, discount = (_number(concept, name) for name in ("ValorUnitario", "Importe", "Descuento"))
    if price <= 0:
        yield (
            "CFDI40166",
            (
                "El valor del campo ValorUnitario debe ser mayor que cero (0) cuando el tipo de comprobante es Ingreso, Egreso "
                "o Nomina."
            ),
        )
    quantity = _number(concept, "Cantidad")
    least, most = _product(quantity, _half(concept, "Cantidad"), price, _half(concept, "ValorUnitario"))
    if not least <= amount <= most:
        yield "CFDI40167", "El valor del campo Importe no se encuentra entre el límite inferior y superior permitido."
    if discount > amount:
        yield "CFDI40169", "El valor del campo Descuento es mayor que el campo Importe."
    rows = list(concept.iterfind(f"{CFD}Impuestos/*/*"))
    if concept.get("ObjetoImp") == _TAXED and not rows:
        yield "CFDI40171", 'Si el valor registrado en este campo es "02", deben desglosarse los impuestos del concepto.'
    if concept.get("ObjetoImp") in ("01", "03") and rows:
        yield (
            "CFDI40172",
            "Si el valor registrado en este campo es 01 o 03, no debe existir el nodo Impuestos del concepto.",
        )
    for row in rows:
        yield from _tax(row, "", _WITHHELD if _is_withheld(row) else _TRANSFERRED)


class _Codes:
    """The codes of the rules of one kind of tax row, in the order in which `_tax` checks them."""

    def __init__(self, base: str, tax: str, factor: str, exempt: str, incomplete: str, rate: str, amount: str) -> None:
        self.base, self.tax, self.factor, self.exempt = base, tax, factor, exempt
        self.incomplete, self.rate, self.amount = incomplete, rate, amount


_TRANSFERRED: Final = _Codes("CFDI40174", "CFDI40175", "CFDI40176", "CFDI40177", "CFDI40178", "CFDI40179", "CFDI40180")
_WITHHELD: Final = _Codes("CFDI40181", "CFDI40182", "CFDI40183", "CFDI40184", "CFDI40184", "CFDI40185", "CFDI40186")
_TRANSFERRED_DR: Final = _Codes("CRP20255", "CRP20256", "CRP20257", "CRP20258", "CRP20259", "CRP20260", "CRP20261")
_WITHHELD_DR: Final = _Codes("CRP20249", "CRP20250", "CRP20251", "CRP20252", "CRP20252", "CRP20253", "CRP20254")


def _tax(row: Any, suffix: str, codes: _Codes) -> Iterator[Fault]:
    tax, factor = row.get(f"Impuesto{suffix}"), row.get(f"TipoFactor{suffix}")
    rate, amount = row.get(f"TasaOCuota{suffix}"), row.get(f"Importe{suffix}")
    base = _number(row, f"Base{suffix}")
    if base <= 0:
        yield codes.base, f"El valor del campo Base{suffix} debe ser mayor que cero."
    if tax not in _TAXES:
        yield codes.tax, _not_in(f"Impuesto{suffix}", "c_Impuesto")
    if factor not in _FACTORS:
        yield codes.factor, _not_in(f"TipoFactor{suffix}", "c_TipoFactor")
    if factor == EXEMPT:
        if _is_withheld(row) or rate is not None or amount is not None:
            yield (
                codes.exempt,
                f"Si el valor de TipoFactor{suffix} es Exento, no se deben registrar la tasa ni el importe.",
            )
        return
    if rate is None or amount is None:
        yield (
            codes.incomplete,
            f"Si el valor de TipoFactor{suffix} es Tasa o Cuota, se deben registrar la tasa y el importe.",
        )
        return
    kind = Tax(type=_TAXES.get(tax, ""), rate=Decimal(rate), factor=factor, withholding=_is_withheld(row))
    if wrong_tax(kind) or (kind.type == ISR and not kind.withholding):
        yield (
            codes.rate,
            (
                f"El valor del campo TasaOCuota{suffix} no contiene un valor del catálogo c_TasaOCuota o se encuentra fuera de "
                "rango."
            ),
        )
    least, most = _product(base, _half(row, f"Base{suffix}"), Decimal(rate), _NOTHING)
    if not least <= Decimal(amount) <= most:
        yield (
            codes.amount,
            (f"El valor del campo Importe{suffix} no se encuentra entre el límite inferior y superior permitido."),
        )


# ------------------------------------------------------------------------------------------- the sums of a document


def _sums(root: Any) -> Iterator[Fault]:
    concepts = list(root.iterfind(f"{CFD}Conceptos/{CFD}Concepto"))
    subtotal, discount = _number(root, "SubTotal"), _number(root, "Descuento")
    if subtotal != subtotal.quantize(_CENT):
        yield "CFDI40107", "El valor de este campo SubTotal excede la cantidad de decimales que soporta la moneda."
    if subtotal != _rounded(sum((_number(each, "Importe") for each in concepts), _NOTHING)):
        yield (
            "CFDI40108",
            (
                "El TipoDeComprobante es I,E o N, el importe registrado en el campo no es igual al redondeo de la suma de los "
                "importes de los conceptos registrados."
            ),
        )
    if discount > subtotal:
        yield "CFDI40110", "El valor registrado en el campo Descuento no es menor o igual que el campo Subtotal."
    if discount != discount.quantize(_CENT):
        yield "CFDI40112", "El valor del campo Descuento excede la cantidad de decimales que soporta la moneda."
    taxes = root.find(f"{CFD}Impuestos")
    added = _NOTHING
    if taxes is not None:
        added = _number(taxes, "TotalImpuestosTrasladados") - _number(taxes, "TotalImpuestosRetenidos")
    if _number(root, "Total") != _rounded(subtotal - discount + added):
        yield (
            "CFDI40119",
            (
                "El campo Total no corresponde con la suma del subtotal, menos los descuentos aplicables, más las "
                "contribuciones recibidas (impuestos trasladados - federales o locales, derechos, productos, aprovechamientos, "
                "aportaciones de seguridad social, contribuciones de mejoras) menos los impuestos retenidos y/o locales."
            ),
        )


def _summary(root: Any) -> Iterator[Fault]:
    """Yields the faults of the taxes that the document states in sum, against those of its concepts."""
    rows = list(root.iterfind(f"{CFD}Conceptos/{CFD}Concepto/{CFD}Impuestos/*/*"))
    taxes = root.find(f"{CFD}Impuestos")
    stated = [] if taxes is None else list(taxes.iterfind("*/*"))
    totals = {"Retenidos": _NOTHING, "Trasladados": _NOTHING}
    for row in stated:
        totals["Retenidos" if _is_withheld(row) else "Trasladados"] += _number(row, "Importe")
    for name, code in (("Retenidos", "CFDI40203"), ("Trasladados", "CFDI40205")):
        if taxes is not None and _number(taxes, f"TotalImpuestos{name}") != totals[name]:
            kind = "Retencion" if name == "Retenidos" else "Traslado"
            yield (
                code,
                (
                    f"El valor del campo TotalImpuestos{name} debe ser igual a la suma de los importes registrados en los "
                    f"elementos hijos {kind}."
                ),
            )
    yield from _rows_in_sum(rows, stated, "", "", {
        "withheld twice": "CFDI40208", "withheld": "CFDI40211", "twice": "CFDI40218", "base": "CFDI40215",
        "amount": "CFDI40221",
    })  # fmt: skip


def _rows_in_sum(rows: list[Any], stated: list[Any], of: str, suffix: str, codes: Mapping[str, str]) -> Iterator[Fault]:
    """Yields the faults of stated taxes against the rows that they sum up, whose names end in `of`."""
    sums: dict[tuple[Any, ...], tuple[Decimal, Decimal]] = {}
    for row in rows:
        base, amount = sums.get(_key(row, of), (_NOTHING, _NOTHING))
        sums[_key(row, of)] = base + _number(row, f"Base{of}"), amount + _number(row, f"Importe{of}")
    seen = set()
    for row in stated:
        key, withheld = _key(row, suffix), _is_withheld(row)
        base, amount = sums.get(key, (_NOTHING, _NOTHING))
        if key in seen:
            yield (
                codes["withheld twice" if withheld else "twice"],
                (f"Debe haber sólo un registro por cada impuesto{'' if withheld else ', factor y tasa'}."),
            )
        seen.add(key)
        if not withheld and _number(row, f"Base{suffix}") != _rounded(base):
            yield (
                codes["base"],
                (
                    f"El valor del campo Base{suffix} debe ser igual al redondeo de la suma de las bases de los impuestos "
                    "trasladados con el mismo impuesto y la misma tasa."
                ),
            )
        if _number(row, f"Importe{suffix}") != _rounded(amount):
            yield (
                codes["withheld" if withheld else "amount"],
                (
                    f"El valor del campo Importe{suffix} debe ser igual al redondeo de la suma de los importes de los impuestos "
                    "del mismo tipo."
                ),
            )
    if set(sums) - seen:
        lacking = min(set(sums) - seen, key=str)
        yield (
            codes["withheld" if lacking[0] else "amount"],
            "El total de un impuesto de los conceptos no está registrado.",
        )


# --------------------------------------------------------------------------------------------------- a payment receipt


def _fixed_head(root: Any) -> Iterator[Fault]:
    for name, value, code in (
        ("SubTotal", "0", "CRP20103"),
        ("Moneda", "XXX", "CRP20104"),
        ("Total", "0", "CRP20110"),
    ):
        if root.get(name) != value:
            yield code, f'El valor del campo {name} debe ser "{value}".'
    for name, code in (("CondicionesDePago", "CRP20107"), ("Descuento", "CRP20108")):
        if root.get(name) is not None:
            yield code, f"El campo {name} no debe existir."
    concepts = list(root.iterfind(f"{CFD}Conceptos/{CFD}Concepto"))
    if len(concepts) != 1:
        yield "CRP20111", "Solo debe existir un Concepto en el CFDI."
    for name, value, code in (
        ("ClaveProdServ", "84111506", "CRP20113"),
        ("Cantidad", "1", "CRP20115"),
        ("ClaveUnidad", "ACT", "CRP20116"),
        ("Descripcion", "Pago", "CRP20118"),
        ("ValorUnitario", "0", "CRP20119"),
        ("Importe", "0", "CRP20120"),
        ("ObjetoImp", "01", "CRP20122"),
    ):
        if concepts[0].get(name) != value:
            yield code, f'El valor del campo {name} debe ser "{value}".'


def _payments(root: Any) -> Iterator[Fault]:
    paid = root.find(f"{CFD}Complemento/{PAGO}Pagos")
    if paid is None:
        yield "CRP20999", "El CFDI no contiene el complemento para recepción de pagos."
        return
    total = _NOTHING
    for payment in paid.iterfind(f"{PAGO}Pago"):
        yield from _payment(payment)
        total += _number(payment, "Monto") * Decimal(payment.get("TipoCambioP") or 1)
    if _number(paid.find(f"{PAGO}Totales"), "MontoTotalPagos") != _rounded(total):
        yield (
            "CRP20211",
            (
                "El valor del campo MontoTotalPagos no es igual al redondeo de la suma del resultado de multiplicar cada nodo "
                "Pago por el valor de los atributos Monto y TipoCambioP."
            ),
        )


def _payment(payment: Any) -> Iterator[Fault]:
    form, currency, rate = payment.get("FormaDePagoP"), payment.get("MonedaP"), payment.get("TipoCambioP")
    if form == "99" or form not in PAYMENT_FORMS:
        yield "CRP20212", 'El valor del campo FormaDePagoP debe ser distinto de "99".'
    if currency == "XXX" or not is_currency(currency):
        yield "CRP20213", 'El campo MonedaP debe ser distinto de "XXX".'
    if currency != "MXN" and rate is None:
        yield "CRP20214", "El campo TipoCambioP se debe registrar."
    if currency == "MXN" and rate != "1":
        yield "CRP20215", 'El campo TipoCambioP debe ser "1".'
    related = list(payment.iterfind(f"{PAGO}DoctoRelacionado"))
    amount = _number(payment, "Monto")
    same = [each for each in related if each.get("MonedaDR") == currency]
    if len(same) == len(related) and sum((_number(each, "ImpPagado") for each in related), _NOTHING) > amount:
        yield (
            "CRP20217",
            (
                "La suma de los valores registrados en el campo ImpPagado de los apartados DoctoRelacionado no es menor o igual "
                "que el valor del campo Monto."
            ),
        )
    if amount <= 0:
        yield "CRP20218", "El valor del campo Monto no es mayor que 0."
    for each in related:
        yield from _related(each, currency)
    rows = [row for each in related for row in each.iterfind(f"{PAGO}ImpuestosDR/*/*")]
    yield from _rows_in_sum(rows, list(payment.iterfind(f"{PAGO}ImpuestosP/*/*")), "DR", "P", {
        "withheld twice": "CRP20263", "withheld": "CRP20265", "twice": "CRP20271", "base": "CRP20268",
        "amount": "CRP20274",
    })  # fmt: skip


def _related(related: Any, currency: str) -> Iterator[Fault]:
    before, paid, after = (_number(related, name) for name in ("ImpSaldoAnt", "ImpPagado", "ImpSaldoInsoluto"))
    if related.get("MonedaDR") == currency and Decimal(related.get("EquivalenciaDR") or 0) != 1:
        yield "CRP20238", 'El campo EquivalenciaDR debe ser "1".'
    if before <= 0:
        yield "CRP20239", "El campo ImpSaldoAnt debe ser mayor a cero."
    if paid <= 0:
        yield "CRP20241", "El campo ImpPagado debe ser mayor a cero."
    if after < 0 or after != before - paid:
        yield (
            "CRP20244",
            (
                "El valor del campo ImpSaldoInsoluto debe ser mayor o igual a cero y calcularse restando del campo ImpSaldoAnt "
                "el valor del campo ImpPagado."
            ),
        )
    rows = list(related.iterfind(f"{PAGO}ImpuestosDR/*/*"))
    if related.get("ObjetoImpDR") not in _OBJECTS:
        yield "CRP20245", _not_in("ObjetoImpDR", "c_ObjetoImp")
    if related.get("ObjetoImpDR") == _TAXED and not rows:
        yield "CRP20246", 'El valor del campo ObjetoImpDR es "02", por lo que el nodo ImpuestosDR debe existir.'
    if related.get("ObjetoImpDR") in ("01", "03", "04", "05") and rows:
        yield "CRP20247", "El nodo ImpuestosDR no debe existir por el valor del campo ObjetoImpDR."
    for row in rows:
        yield from _tax(row, "DR", _WITHHELD_DR if _is_withheld(row) else _TRANSFERRED_DR)


# ------------------------------------------------------------------------------------------------------------- numbers


def _key(row: Any, suffix: str) -> tuple[Any, ...]:
    """Returns what of a tax row is summed up together: withheld taxes by the tax alone."""
    tax = row.get(f"Impuesto{suffix}")
    if _is_withheld(row):
        return True, tax
    rate = row.get(f"TasaOCuota{suffix}")
    return False, tax, row.get(f"TipoFactor{suffix}"), None if rate is None else Decimal(rate)


def _is_withheld(row: Any) -> bool:
    return "Retencion" in row.tag


def _number(node: Any, name: str) -> Decimal:
    return Decimal(node.get(name) or 0)


def _half(node: Any, name: str) -> Decimal:
    """Returns half a unit of the last decimal that is written."""
    return Decimal(5).scaleb(-1 - len(node.get(name).partition(".")[2]))


def _product(one: Decimal, of_one: Decimal, other: Decimal, of_other: Decimal) -> tuple[Decimal, Decimal]:
    """Returns the bounds of a product of two numbers that were rounded by so much (SAT's guide, "límites")."""
    least = (one - of_one) * (other - of_other)
    most = (one + of_one - _TINY) * (other + (of_other - _TINY if of_other else _NOTHING))
    return least.quantize(_CENT, rounding=ROUND_DOWN), most.quantize(_CENT, rounding=ROUND_CEILING)


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(_CENT, rounding=ROUND_HALF_UP)
