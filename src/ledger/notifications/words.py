"""The sentences of all messages, in Spanish and English. `{…}` are plain values; the templates escape them.

Spanish addresses the payer as "usted". Keep the same members in both languages.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ledger.notifications.contract import MessageKind


class Sentences(Struct, frozen=True):
    """One kind of message: its subject, its title, its first sentence, and what the payer can do."""

    subject: str
    title: str
    lead: str
    advice: str


class Words(Struct, frozen=True, kw_only=True):
    """All sentences and labels in one language."""

    greeting: str
    greeting_by_name: str
    labels: dict[str, str]
    references: str
    last_attempt: str
    ended: str
    footer: str
    invoice: str
    merchant_footer: str
    endpoint_gone: str
    endpoint_failing: str
    kinds: dict[MessageKind, Sentences]


_ES: Final = Words(
    greeting="Buen día:",
    greeting_by_name="Hola, {name}:",
    labels={
        "amount_due": "Importe pendiente",
        "amount": "Importe",
        "amount_paid": "Importe pagado",
        "order": "Pedido",
        "description": "Concepto",
        "due": "Vence",
        "was_due": "Venció",
        "plan": "Plan",
        "trial_end": "Fin de la prueba",
        "number": "Recibo",
        "bill": "Cobro",
        "period": "Periodo",
        "paid": "Fecha de pago",
        "card": "Tarjeta",
        "next_attempt": "Próximo intento",
        "clabe": "CLABE",
        "reference": "Referencia",
        "convenio": "Convenio",
        "folio": "Folio",
        "fiscal_uuid": "Folio fiscal",
        "issued": "Fecha de emisión",
        "endpoint": "Dirección",
        "disabled": "Desactivada",
    },
    references="Puede pagar con estos datos:",
    last_attempt="No habrá más intentos automáticos. Actualice su método de pago con {merchant} para conservar la "
    "suscripción.",
    ended="No habrá más intentos: la suscripción fue cancelada. Si desea continuar, contrátela de nuevo con {merchant}.",
    footer="{merchant} le envía este mensaje automático. Si no desea recibir avisos como este, pídalo a {merchant}.",
    invoice="Solicite aquí su factura electrónica",
    merchant_footer="El servicio de pagos envía este mensaje automático a la dirección de avisos (alertEmail) de {merchant}.",
    endpoint_gone="El programa que los recibe respondió 410 (Gone): ya no los quiere.",
    endpoint_failing="El programa que los recibe no aceptó ninguno en cinco días.",
    kinds={
        MessageKind.PAYMENT_REMINDER: Sentences(
            "Recordatorio de pago: {amount} a {merchant}, vence el {short_date}",
            "Recordatorio de pago",
            "Su pago a {merchant} vence el {date}.",
            "Si ya realizó el pago, no necesita hacer nada más.",
        ),
        MessageKind.OVERDUE: Sentences(
            "Pago vencido: {amount} a {merchant}",
            "Su pago está vencido",
            "Su pago a {merchant} venció el {date} y aún tiene un importe pendiente.",
            "Si ya realizó el pago, no necesita hacer nada más.",
        ),
        MessageKind.TRIAL_WILL_END: Sentences(
            "Su prueba de {plan} termina el {short_date}",
            "Su prueba está por terminar",
            "Su prueba de {plan} en {merchant} termina el {date}. Después se cobrará el importe del plan a su método de "
            "pago guardado.",
            "Si no desea continuar, cancele con {merchant} antes de esa fecha.",
        ),
        MessageKind.PAYMENT_FAILED: Sentences(
            "No se pudo cobrar su suscripción a {plan}",
            "No se pudo realizar el cobro",
            "El cobro de su suscripción a {plan} en {merchant} fue rechazado.",
            "Revise su método de pago con {merchant}. Se volverá a intentar en la fecha indicada.",
        ),
        MessageKind.RENEWAL_RECEIPT: Sentences(
            "Recibo de {merchant}: {amount}",
            "Gracias por su pago",
            "{merchant} recibió el pago de su suscripción a {plan}.",
            "Conserve este recibo. No es una factura electrónica (CFDI).",
        ),
        MessageKind.CFDI_INVOICE: Sentences(
            "Factura {number} de {merchant}: {amount}",
            "Su factura electrónica",
            "{merchant} le envía su factura electrónica (CFDI). El XML y el PDF van adjuntos.",
            "Conserve el XML: es el comprobante fiscal. El PDF es su representación impresa.",
        ),
        MessageKind.CFDI_RECEIPT: Sentences(
            "Recibo electrónico de pago {number} de {merchant}: {amount}",
            "Su recibo electrónico de pago",
            "{merchant} le envía el recibo electrónico de su pago (CFDI). El XML y el PDF van adjuntos.",
            "Conserve el XML: es el comprobante fiscal. El PDF es su representación impresa.",
        ),
        MessageKind.CFDI_CREDIT_NOTE: Sentences(
            "Nota de crédito {number} de {merchant}: {amount}",
            "Su nota de crédito",
            "{merchant} le envía la nota de crédito (CFDI) de su devolución. El XML y el PDF van adjuntos.",
            "Conserve el XML: es el comprobante fiscal. El PDF es su representación impresa.",
        ),
        MessageKind.WEBHOOK_DISABLED: Sentences(
            "Los eventos de {merchant} ya no se envían a su programa",
            "Una dirección para eventos fue desactivada",
            "El servicio dejó de enviar los eventos de {merchant} a esta dirección. {reason}",
            "Corrija el programa y active la dirección de nuevo (PUT /v1/webhook-endpoints/…, status ENABLED). Con resume "
            "MISSED recibe los eventos que faltan: no se pierde ninguno.",
        ),
    },
)

_EN: Final = Words(
    greeting="Hello,",
    greeting_by_name="Hello {name},",
    labels={
        "amount_due": "Amount due",
        "amount": "Amount",
        "amount_paid": "Amount paid",
        "order": "Order",
        "description": "Description",
        "due": "Due",
        "was_due": "Was due",
        "plan": "Plan",
        "trial_end": "Trial ends",
        "number": "Receipt",
        "bill": "Bill",
        "period": "Period",
        "paid": "Paid on",
        "card": "Card",
        "next_attempt": "Next attempt",
        "clabe": "CLABE",
        "reference": "Reference",
        "convenio": "Convenio",
        "folio": "Number",
        "fiscal_uuid": "Fiscal UUID",
        "issued": "Issued on",
        "endpoint": "Address",
        "disabled": "Disabled",
    },
    references="You can pay with these details:",
    last_attempt="There will be no further automatic attempt. Update your payment method with {merchant} to keep the "
    "subscription.",
    ended="There will be no further attempt: the subscription was cancelled. To continue, subscribe again with "
    "{merchant}.",
    footer="{merchant} sends you this automatic message. If you do not want messages like this one, ask {merchant}.",
    invoice="Request your electronic invoice here",
    merchant_footer="The payment service sends this automatic message to the address for alerts (alertEmail) of {merchant}.",
    endpoint_gone="The program that receives them answered 410 (Gone): it does not want them any more.",
    endpoint_failing="The program that receives them accepted none in five days.",
    kinds={
        MessageKind.PAYMENT_REMINDER: Sentences(
            "Payment reminder: {amount} to {merchant}, due {short_date}",
            "Payment reminder",
            "Your payment to {merchant} is due on {date}.",
            "If you have already paid, there is nothing else to do.",
        ),
        MessageKind.OVERDUE: Sentences(
            "Payment overdue: {amount} to {merchant}",
            "Your payment is overdue",
            "Your payment to {merchant} was due on {date}, and an amount is still open.",
            "If you have already paid, there is nothing else to do.",
        ),
        MessageKind.TRIAL_WILL_END: Sentences(
            "Your trial of {plan} ends on {short_date}",
            "Your trial is about to end",
            "Your trial of {plan} at {merchant} ends on {date}. After that, the plan's amount is charged to your saved "
            "payment method.",
            "If you do not want to continue, cancel with {merchant} before that date.",
        ),
        MessageKind.PAYMENT_FAILED: Sentences(
            "Your subscription to {plan} could not be charged",
            "The payment failed",
            "The payment of your subscription to {plan} at {merchant} was declined.",
            "Check your payment method with {merchant}. The payment is tried again on the date shown.",
        ),
        MessageKind.RENEWAL_RECEIPT: Sentences(
            "Receipt from {merchant}: {amount}",
            "Thank you for your payment",
            "{merchant} received the payment of your subscription to {plan}.",
            "Keep this receipt. It is not an electronic invoice (CFDI).",
        ),
        MessageKind.CFDI_INVOICE: Sentences(
            "Invoice {number} from {merchant}: {amount}",
            "Your electronic invoice",
            "{merchant} sends you your electronic invoice (CFDI). The XML and the PDF are attached.",
            "Keep the XML: it is the fiscal document. The PDF is its printed form.",
        ),
        MessageKind.CFDI_RECEIPT: Sentences(
            "Payment receipt {number} from {merchant}: {amount}",
            "Your electronic payment receipt",
            "{merchant} sends you the electronic receipt (CFDI) of your payment. The XML and the PDF are attached.",
            "Keep the XML: it is the fiscal document. The PDF is its printed form.",
        ),
        MessageKind.CFDI_CREDIT_NOTE: Sentences(
            "Credit note {number} from {merchant}: {amount}",
            "Your credit note",
            "{merchant} sends you the credit note (CFDI) of your refund. The XML and the PDF are attached.",
            "Keep the XML: it is the fiscal document. The PDF is its printed form.",
        ),
        MessageKind.WEBHOOK_DISABLED: Sentences(
            "The events of {merchant} are no longer sent to your program",
            "A webhook endpoint was disabled",
            "The service has stopped sending the events of {merchant} to this address. {reason}",
            "Mend the program and enable the endpoint again (PUT /v1/webhook-endpoints/…, status ENABLED). With resume "
            "MISSED it gets what it missed: nothing is lost.",
        ),
    },
)

WORDS: Final = {"es": _ES, "en": _EN}
