"""The texts of the page of self-invoicing, in Spanish and in English. The names of SAT's codes are Spanish in both."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ledger.domain.invoices.self_invoicing import SelfInvoiceState

NAMES: Final = ("taxId", "legalName", "taxSystem", "cfdiUse", "zipCode")
"""The fields of the form, by their names in a request to stamp."""


class SelfInvoiceTexts(Struct, frozen=True, kw_only=True):
    """The texts in one language. A pair is a title and its paragraph; `{…}` are values, which the page escapes.

    `labels`, `hints` and `wrong` have the fields of `NAMES`: what they are called, what helps, what is wrong with them.
    """

    language: str
    sandbox: str
    title: str
    lead: str
    facts: tuple[str, str, str, str]
    labels: dict[str, str]
    hints: dict[str, str]
    wrong: dict[str, str]
    foreign_rfc: str
    choose: str
    persons: str
    companies: str
    every_use: str
    uses_of_persons: str
    submit: str
    correct: str
    refused: str
    cannot: str
    done: tuple[str, str]
    downloads: tuple[str, str]
    mailed: str
    pending: tuple[str, str]
    known: tuple[str, str]
    show: str
    other_rfc: str
    unavailable: tuple[str, str]
    too_many: tuple[str, str]
    ended: tuple[str, str]
    not_found: tuple[str, str]
    states: dict[SelfInvoiceState, tuple[str, str]]


_SPANISH: Final = SelfInvoiceTexts(
    language="es",
    sandbox="Entorno de pruebas: estas facturas no tienen validez fiscal.",
    title="Factura tu compra",
    lead="Escribe los datos como aparecen en tu Constancia de Situación Fiscal. Puedes facturar hasta el {day}.",
    facts=("Comercio", "Pedido", "Fecha de pago", "Importe a facturar"),
    labels={
        "taxId": "RFC",
        "legalName": "Nombre o razón social",
        "taxSystem": "Régimen fiscal",
        "cfdiUse": "Uso del CFDI",
        "zipCode": "Código postal de tu domicilio fiscal",
    },
    hints={
        "taxId": "12 caracteres para una empresa, 13 para una persona.",
        "legalName": "Sin el régimen societario: sin «S.A. de C.V.».",
    },
    wrong={
        "taxId": "El RFC debe tener 12 o 13 caracteres, como en tu constancia.",
        "legalName": "Escribe el nombre o la razón social como en tu constancia, con 255 caracteres como máximo.",
        "taxSystem": "Elige el régimen de tu constancia: uno que corresponda a tu RFC.",
        "cfdiUse": "Elige un uso que tu régimen permita.",
        "zipCode": "El código postal debe tener cinco dígitos y existir en el catálogo del SAT.",
    },
    foreign_rfc="Escribe tu propio RFC: con un RFC genérico no se puede facturar aquí.",
    choose="Elige una opción",
    persons="Personas físicas",
    companies="Personas morales (empresas)",
    every_use="Usos generales e inversiones",
    uses_of_persons="Deducciones personales (solo personas físicas)",
    submit="Emitir mi factura",
    correct="Corrige los datos marcados.",
    refused="El SAT no aceptó la factura con estos datos. Revísalos e inténtalo de nuevo. Su respuesta: {answer}",
    cannot="La tienda no puede emitir la factura de esta compra por este medio. Pídela a la tienda.",
    done=(
        "Tu factura está lista",
        "Descarga los dos archivos: el XML es el comprobante fiscal, el PDF es para imprimir.",
    ),
    downloads=("Descargar el XML", "Descargar el PDF"),
    mailed="Los enlaces duran 15 minutos. Vuelve a esta página con tu RFC para obtenerlos de nuevo.",
    pending=(
        "Estamos emitiendo tu factura",
        "Recibimos tus datos. La factura se emite en unos minutos: vuelve a esta página con el mismo enlace.",
    ),
    known=("Esta compra ya tiene factura", "Escribe el RFC al que se emitió para descargarla."),
    show="Ver la factura",
    other_rfc="La factura de esta compra no se emitió a este RFC.",
    unavailable=(
        "No podemos emitir tu factura ahora",
        "El servicio de timbrado no responde y no se guardó nada. Inténtalo de nuevo en unos minutos.",
    ),
    too_many=("Demasiados intentos", "Espera un momento e inténtalo de nuevo."),
    ended=(
        "Este enlace ya venció",
        "El plazo para facturar esta compra terminó. Si aún necesitas la factura, pídela a la tienda.",
    ),
    not_found=("Esta página no existe", "La dirección no corresponde a ninguna compra. Revisa el enlace de tu recibo."),
    states={
        SelfInvoiceState.INVOICE_CANCELLED: (
            "La factura de esta compra fue cancelada",
            "La tienda canceló la factura o pidió cancelarla. Pide una nueva a la tienda.",
        ),
        SelfInvoiceState.BY_MERCHANT: (
            "La tienda emite esta factura",
            "La tienda ya tiene los datos fiscales de esta compra y emite la factura. Si están mal, avisa a la tienda.",
        ),
        SelfInvoiceState.IN_GLOBAL_INVOICE: (
            "Esta compra ya está en la factura global",
            "La tienda ya la facturó al público en general. Si necesitas la factura a tu nombre, pídela a la tienda.",
        ),
        SelfInvoiceState.NOT_PAID: (
            "Esta compra aún no está pagada",
            "Podrás facturarla cuando el pago esté completo. Vuelve entonces con el mismo enlace.",
        ),
        SelfInvoiceState.REFUNDED: (
            "Esta compra fue devuelta",
            "El dinero se devolvió o se está devolviendo: no hay nada que facturar.",
        ),
        SelfInvoiceState.CANCELLED: ("Esta compra fue cancelada", "Una compra cancelada no se factura."),
        SelfInvoiceState.ERASED: (
            "Esta compra ya no se puede facturar aquí",
            "Los datos del cliente se borraron. Si necesitas la factura, pídela a la tienda.",
        ),
    },
)

_ENGLISH: Final = SelfInvoiceTexts(
    language="en",
    sandbox="Test environment: these invoices are worth nothing to the tax authority.",
    title="Invoice your purchase",
    lead="Enter your details as they are on your tax certificate (Constancia de Situación Fiscal). You can request the "
    "invoice until {day}.",
    facts=("Shop", "Order", "Paid on", "Amount to invoice"),
    labels={
        "taxId": "RFC (tax number)",
        "legalName": "Registered name",
        "taxSystem": "Tax regime",
        "cfdiUse": "Use of the CFDI",
        "zipCode": "Postal code of your fiscal address",
    },
    hints={
        "taxId": "12 characters for a company, 13 for a person.",
        "legalName": "Without the kind of company: without “S.A. de C.V.”.",
    },
    wrong={
        "taxId": "The RFC must have 12 or 13 characters, as on your certificate.",
        "legalName": "Enter the name as it is on your certificate, with at most 255 characters.",
        "taxSystem": "Choose the regime of your certificate: one that your RFC can have.",
        "cfdiUse": "Choose a use that your regime allows.",
        "zipCode": "The postal code must have five digits and be one of SAT's catalogue.",
    },
    foreign_rfc="Enter your own RFC: a generic one cannot be invoiced here.",
    choose="Choose one",
    persons="Persons",
    companies="Companies",
    every_use="General uses and investments",
    uses_of_persons="Personal deductions (persons only)",
    submit="Issue my invoice",
    correct="Correct the fields that are marked.",
    refused="SAT did not accept the invoice with these details. Check them and try again. Its answer: {answer}",
    cannot="The shop cannot issue the invoice of this purchase here. Ask the shop for it.",
    done=("Your invoice is ready", "Download both files: the XML is the fiscal document, the PDF is for printing."),
    downloads=("Download the XML", "Download the PDF"),
    mailed="The links last 15 minutes. Come back to this page with your RFC to get them again.",
    pending=(
        "Your invoice is being issued",
        "We have your details. The invoice is issued within minutes: come back to this page by the same link.",
    ),
    known=("This purchase has its invoice", "Enter the RFC to which it was issued to download it."),
    show="Show the invoice",
    other_rfc="The invoice of this purchase was not issued to this RFC.",
    unavailable=(
        "Your invoice cannot be issued now",
        "The stamping service does not answer, and nothing was stored. Try again in a few minutes.",
    ),
    too_many=("Too many attempts", "Wait a moment and try again."),
    ended=(
        "This link has ended",
        "The time to invoice this purchase is over. If you still need the invoice, ask the shop for it.",
    ),
    not_found=("This page does not exist", "The address belongs to no purchase. Check the link on your receipt."),
    states={
        SelfInvoiceState.INVOICE_CANCELLED: (
            "The invoice of this purchase was cancelled",
            "The shop has cancelled the invoice, or asked for that. Ask the shop for a new one.",
        ),
        SelfInvoiceState.BY_MERCHANT: (
            "The shop issues this invoice",
            "The shop has the fiscal data of this purchase and issues the invoice. If they are wrong, contact the shop.",
        ),
        SelfInvoiceState.IN_GLOBAL_INVOICE: (
            "This purchase is in the global invoice",
            "The shop has invoiced it to the public in general. If you need an invoice in your name, ask the shop.",
        ),
        SelfInvoiceState.NOT_PAID: (
            "This purchase is not paid yet",
            "You can invoice it once the payment is complete. Come back by the same link then.",
        ),
        SelfInvoiceState.REFUNDED: (
            "This purchase was refunded",
            "The money went back, or is on its way: there is nothing to invoice.",
        ),
        SelfInvoiceState.CANCELLED: ("This purchase was cancelled", "A cancelled purchase is not invoiced."),
        SelfInvoiceState.ERASED: (
            "This purchase cannot be invoiced here any more",
            "The customer's data was erased. If you need the invoice, ask the shop for it.",
        ),
    },
)

TEXTS: Final = {each.language: each for each in (_SPANISH, _ENGLISH)}
