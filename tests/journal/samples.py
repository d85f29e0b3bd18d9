"""One event of every topic with every field filled: the content of the golden files.

Once a release is tagged, change a sample to fit its golden file, never the file to fit the sample.
`python -m tests.journal.samples` writes the missing files and changes no other.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Raw
from tests.journal.action_samples import ACTIONS, REFUND
from tests.journal.global_invoice_samples import GLOBAL_INVOICES, OF_ORDERS
from tests.journal.invoice_samples import INVOICES
from tests.journal.reminder_samples import REMINDERS
from tests.journal.subscription_samples import SUBSCRIPTIONS

from ledger.domain.customers import events as customers
from ledger.domain.idempotency import events as requests
from ledger.domain.merchants import events as merchants
from ledger.domain.merchants import messages
from ledger.domain.merchants.settings import CardEntry, UnknownFields
from ledger.domain.orders import events as orders
from ledger.domain.orders.invoices.terms import InvoiceFolio, InvoiceTrigger, PueRefund
from ledger.domain.orders.statuses import Advice
from ledger.domain.orders.terms import (
    AuthenticationSession,
    BillingAddress,
    CaptureMethod,
    CardSummary,
    DeviceInformation,
    FiscalAddress,
    FiscalData,
    LineItem,
    MethodType,
    PaymentMethod,
    SurchargePolicy,
    Tax,
)
from ledger.domain.payment_methods import events as payment_methods
from ledger.domain.payment_methods.terms import EndedBecause, PayerStep
from ledger.domain.plans import events as plans
from ledger.domain.plans.terms import Interval, OnRetriesExhausted, PlanTerms
from ledger.domain.processor_accounts import events as accounts
from ledger.domain.processor_accounts.terms import AccountMethod, AccountMode, AccountTerms
from ledger.domain.products import events as products
from ledger.domain.webhooks import events as webhooks
from ledger.domain.webhooks.terms import DisabledReason, EndpointTerms, Ordering, Payload, Resume
from ledger.journal.codec import CODEC
from ledger.journal.encryption.sealing import Seal

AT = datetime(2026, 1, 31, 18, 30, 15, 123456, tzinfo=UTC)
LATER = datetime(2026, 1, 31, 18, 30, 45, tzinfo=UTC)
MERCHANT, CUSTOMER, ORDER, PAYMENT, METHOD, KEY, PRODUCT, PLAN = (
    UUID(f"01890a5d-ac96-774b-bcce-b302099a80{n:02x}") for n in range(1, 9)
)

SESSION = AuthenticationSession(
    transaction_id="txn-1",
    reference_id="ref-1",
    device_data_collection_url="https://acs.example/collect",
    access_token="token-1",
    step_up_url="https://acs.example/step-up",
    three_ds_version="2.2.0",
)

PLAN_TERMS = PlanTerms(
    amount=Decimal(38900),
    currency="MXN",
    interval=Interval.HALF_MONTH,
    interval_count=2,
    trial_period_days=14,
    expiry_count=12,
    max_retries=3,
    retry_delay_hours=72,
    on_retries_exhausted=OnRetriesExhausted.CANCEL,
)
ACCOUNT, SECRET = (UUID(f"01890a5d-ac96-774b-bcce-b302099a80{n:02x}") for n in (33, 34))
ENDPOINT = UUID("01890a5d-ac96-774b-bcce-b302099a8035")
ENDPOINT_TERMS = EndpointTerms(
    url="https://shop.example.com/hooks",
    events=("payment_order.*", "payment.captured"),
    description="Almacén",
    ordering=Ordering.STRICT,
    payload=Payload.THIN,
)
ACCOUNT_TERMS = AccountTerms(
    mode=AccountMode.TEST,
    methods=(
        AccountMethod(
            type=MethodType.CARD,
            currencies=("MXN", "USD"),
            amount_min=Decimal(1000),
            amount_max=Decimal(99999999),
            installments=(3, 6),
        ),
    ),
    country="MX",
    publishable_key="pk_test_1",
    reference="acct_1",
    secret_id=SECRET,
)
ADDRESS = BillingAddress(
    address="Av. Insurgentes Sur 1602", city="Ciudad de México", state="CDMX", postal_code="03940", country="MX"
)
DEVICE = DeviceInformation(
    ip_address="203.0.113.7",
    user_agent="Mozilla/5.0",
    http_browser_language="es-MX",
    http_browser_screen_width="1920",
    http_browser_screen_height="1080",
)
FISCAL = FiscalData(
    tax_id="EKU9003173C9",
    legal_name="ESCUELA KEMPER URGATE",
    tax_system="601",
    cfdi_use="G03",
    zip_code="42501",
    email="facturas@example.com",
    payment_form="04",
    address=FiscalAddress(
        street="Calle 5",
        exterior="12",
        interior="B",
        neighborhood="Centro",
        city="Pachuca",
        municipality="Pachuca de Soto",
        state="HGO",
        country="MEX",
    ),
)
LINE = LineItem(
    description="Café de altura, 1 kg",
    quantity=Decimal("1.5"),
    unit_price=Decimal("100.5"),
    name="Café",
    sku="CAF-1",
    product_id="p-1",
    product_key="50201706",
    unit_key="KGM",
    unit_name="Kilogramo",
    discount=Decimal(5),
    tax_included=False,
    taxes=(Tax(type="IVA", rate=Decimal("0.16"), factor="Cuota", withholding=True),),
    metadata=Raw(b'{"lot":7}'),
)
CARD = CardSummary(
    bin="411111",
    last4="1111",
    brand="VISA",
    type="CREDIT",
    country="MX",
    issuer_bank="BANCO DE PRUEBA",
    exp_month=12,
    exp_year=2030,
    cardholder_name="ANA LOPEZ",
)

BILLING = payment_methods.Billing(
    first_name="Ana",
    last_name="López",
    phone_number="+525512345678",
    email="ana.lopez@example.com",
    address_line1="Av. Insurgentes Sur 1602",
    address_line2="Piso 3",
    city="Ciudad de México",
    state="CDMX",
    postal_code="03940",
    country="MX",
)

SAMPLES: dict[str, Any] = {
    "order-created.v1": orders.OrderCreated(
        order_id=ORDER,
        order_number="PO0123456789",
        external_id="pedido-1042",
        customer_id=CUSTOMER,
        amount=Decimal("150.75"),
        currency="MXN",
        pending=True,
        at=AT,
        allow_partials=True,
        capture_method=CaptureMethod.MANUAL,
        surcharge=SurchargePolicy(rate=Decimal("3.5"), methods=(MethodType.CARD, MethodType.SPEI)),
        virtual_terminal=True,
        description="Café y molino",
        invoice_number="F-77",
        due_date=LATER,
        metadata=Raw(b'{"channel":"tienda","n":1.10}'),
        billing_address=ADDRESS,
        device_information=DEVICE,
        fiscal=FISCAL,
        line_items=(LINE,),
        subscription_id=UUID("01890a5d-ac96-774b-bcce-b302099a8106"),
    ),
    "order-amount-changed.v1": orders.OrderAmountChanged(amount=Decimal("175.5"), at=AT),
    "order-description-changed.v1": orders.OrderDescriptionChanged(description="Café de olla", at=AT),
    "order-invoice-number-changed.v1": orders.OrderInvoiceNumberChanged(invoice_number="F-78", at=AT),
    "order-metadata-changed.v1": orders.OrderMetadataChanged(
        patch=Raw(b'{"channel":null,"mesa":7}'), removed=True, at=AT
    ),
    "order-due-date-changed.v1": orders.OrderDueDateChanged(due_date=LATER, at=AT),
    "order-line-items-changed.v1": orders.OrderLineItemsChanged(line_items=(LINE,), at=AT),
    "order-receiver-changed.v1": orders.OrderReceiverChanged(fiscal=FISCAL, at=AT),
    "payment-started.v1": orders.PaymentStarted(
        payment_id=PAYMENT,
        method=PaymentMethod(method_id=METHOD, type=MethodType.CARD, card=CARD),
        subtotal=Decimal("150.75"),
        surcharge=Decimal("5.28"),
        at=AT,
        external_id="intento-1",
        virtual_terminal=True,
        billing_address=ADDRESS,
        device_information=DEVICE,
        metadata=Raw(b'{"try":1}'),
        description="Anticipo",
        saves_card=True,
        installments=6,
    ),
    "authorization-requested.v1": orders.AuthorizationRequested(
        payment_id=PAYMENT,
        processor="sandbox",
        idempotency_key=str(PAYMENT),
        amount=Decimal("156.03"),
        capture=True,
        deadline_at=LATER,
        at=AT,
        account="backup",
    ),
    "payment-authorized.v1": orders.PaymentAuthorized(
        payment_id=PAYMENT,
        amount=Decimal("156.03"),
        processor_reference="sbx-1",
        at=AT,
        authorization_code="831000",
        validity_s=432_000,
        network_transaction_id="MCC1234567",
    ),
    "capture-scheduled.v1": orders.CaptureScheduled(payment_id=PAYMENT, amount=Decimal("156.03"), due_at=LATER, at=AT),
    "capture-requested.v1": orders.CaptureRequested(
        payment_id=PAYMENT,
        amount=Decimal("156.03"),
        idempotency_key=str(PAYMENT),
        deadline_at=LATER,
        at=AT,
        final=True,
    ),
    "payment-captured.v1": orders.PaymentCaptured(
        payment_id=PAYMENT, amount=Decimal("156.03"), processor_reference="sbx-1", at=AT
    ),
    "payment-declined.v1": orders.PaymentDeclined(
        payment_id=PAYMENT,
        code="INSUFFICIENT_FUNDS",
        at=AT,
        message="The card has insufficient funds.",
        refused_by=orders.RefusedBy.RISK,
        idempotency_key="validate-1",
        network_advice=Advice.RETRY_LATER,
        available_installments=(3, 6),
        processor_reference="sbx-1",
    ),
    "authorization-outcome-unknown.v1": orders.AuthorizationOutcomeUnknown(
        payment_id=PAYMENT, reason="The processor did not answer in time.", at=AT, came_back_at=LATER
    ),
    "authorization-abandoned.v1": orders.AuthorizationAbandoned(
        payment_id=PAYMENT, because=orders.AbandonedBecause.NOT_FOUND, at=AT
    ),
    "late-capture-reported.v1": orders.LateCaptureReported(
        payment_id=PAYMENT,
        amount=Decimal("156.03"),
        authorized=Decimal("156.03"),
        processor_reference="sbx-1",
        at=LATER,
        idempotency_key="captura-1",
    ),
    "late-authorization-reported.v1": orders.LateAuthorizationReported(
        payment_id=PAYMENT, amount=Decimal("156.03"), processor_reference="sbx-1", at=LATER
    ),
    **ACTIONS,
    **REMINDERS,
    **INVOICES,
    **OF_ORDERS,
    **GLOBAL_INVOICES,
    "payer-forgotten.v1": orders.PayerForgotten(at=AT),
    "customer-created.v1": customers.CustomerCreated(
        customer_id=CUSTOMER,
        external_id="cliente-7",
        at=AT,
        first_name="Ana",
        last_name="López",
        email="ana.lopez@example.com",
        phone_number="+525512345678",
        source_id=MERCHANT,
        metadata=Raw(b'{"tier":"gold"}'),
    ),
    "customer-details-changed.v1": customers.CustomerDetailsChanged(
        customer_id=CUSTOMER,
        at=AT,
        first_name="Ana María",
        last_name="López Ruiz",
        email=None,
        phone_number="+525500000000",
    ),
    "customer-source-changed.v1": customers.CustomerSourceChanged(customer_id=CUSTOMER, at=AT, source_id=MERCHANT),
    "customer-metadata-changed.v1": customers.CustomerMetadataChanged(
        customer_id=CUSTOMER, at=AT, metadata=Raw(b'{"tier":"gold"}')
    ),
    "notification-preferences-changed.v1": customers.NotificationPreferencesChanged(
        customer_id=CUSTOMER,
        at=AT,
        preferences=customers.NotificationPreferences(whatsapp=True, receipts=False, language="en"),
    ),
    "customer-fiscal-data-changed.v1": customers.CustomerFiscalDataChanged(customer_id=CUSTOMER, at=AT, fiscal=FISCAL),
    "customer-erased.v1": customers.CustomerErased(customer_id=CUSTOMER, at=AT),
    "payment-method-saved.v1": payment_methods.PaymentMethodSaved(
        payment_method_id=METHOD,
        customer_id=CUSTOMER,
        card=CARD,
        at=AT,
        is_default=True,
        billing=BILLING,
        account="backup",
    ),
    "payment-method-expiry-changed.v1": payment_methods.PaymentMethodExpiryChanged(
        payment_method_id=METHOD, exp_month=7, exp_year=2034, at=AT
    ),
    "payment-method-billing-changed.v1": payment_methods.PaymentMethodBillingChanged(
        payment_method_id=METHOD, at=AT, billing=BILLING
    ),
    "payment-method-renamed.v1": payment_methods.PaymentMethodRenamed(
        payment_method_id=METHOD, at=AT, nickname="La de la nómina"
    ),
    "payment-method-made-default.v1": payment_methods.PaymentMethodMadeDefault(payment_method_id=METHOD, at=AT),
    "payment-method-deleted.v1": payment_methods.PaymentMethodDeleted(
        payment_method_id=METHOD, because=payment_methods.DeletedBecause.CUSTOMER_ERASED, at=AT
    ),
    "card-verification-requested.v1": payment_methods.CardVerificationRequested(
        verification_id=ORDER,
        payment_method_id=METHOD,
        customer_id=CUSTOMER,
        card=CARD,
        processor="sandbox",
        idempotency_key=str(ORDER),
        deadline_at=AT,
        at=AT,
        is_default=True,
        billing=BILLING,
        account="backup",
        by_token=True,
    ),
    "card-verification-challenged.v1": payment_methods.CardVerificationChallenged(
        verification_id=ORDER,
        action=PayerStep.CHALLENGE,
        expires_at=AT,
        at=AT,
        session=SESSION,
        processor_reference="seti_1",
    ),
    "card-verification-resumed.v1": payment_methods.CardVerificationResumed(
        verification_id=ORDER,
        step=PayerStep.CHALLENGE,
        idempotency_key="0198c0de-0000-7000-8000-000000000099",
        transaction_id=SESSION.transaction_id,
        deadline_at=AT,
        at=AT,
    ),
    "card-verification-unanswered.v1": payment_methods.CardVerificationUnanswered(
        verification_id=ORDER, reason="The processor did not answer in time.", at=AT
    ),
    "card-verified.v1": payment_methods.CardVerified(
        verification_id=ORDER, at=AT, processor_reference="sbx_ch_1", eci="05"
    ),
    "card-verification-declined.v1": payment_methods.CardVerificationDeclined(
        verification_id=ORDER,
        code="CARD_EXPIRED",
        at=AT,
        message="The card has expired.",
        by_risk=True,
        eci="07",
        network_advice=Advice.DO_NOT_RETRY,
    ),
    "card-verification-abandoned.v1": payment_methods.CardVerificationAbandoned(
        verification_id=ORDER, at=AT, sent=True
    ),
    "card-verification-ended.v1": payment_methods.CardVerificationEnded(
        verification_id=ORDER, because=EndedBecause.EXPIRED, at=AT
    ),
    "merchant-registered.v1": merchants.MerchantRegistered(merchant_id=MERCHANT, name="Café Tacuba", at=AT),
    "merchant-renamed.v1": merchants.MerchantRenamed(merchant_id=MERCHANT, name="Café La Parroquia", at=AT),
    "merchant-closed.v1": merchants.MerchantClosed(merchant_id=MERCHANT, at=AT),
    "merchant-settings-changed.v1": merchants.MerchantSettingsChanged(
        merchant_id=MERCHANT,
        at=AT,
        surcharge_rate=Decimal("3.5"),
        surcharge_methods=("CARD", "SPEI"),
        time_zone="America/Tijuana",
        payment_methods=("CARD",),
        require_merchant_header=True,
        requests_per_minute=600,
        requests_per_second=50,
        capture_delay_seconds=30,
        invoice_trigger=InvoiceTrigger.CREATION,
        refund_overpayment=True,
        fractional_amounts=False,
        exchange_rate=Decimal("17.2545"),
        receipt_due_day=10,
        reminder_days=(7, 1),
        pue_refund=PueRefund.CANCEL_IN_MONTH,
        unknown_fields=UnknownFields.REJECT,
        invoice_by_default=True,
        invoice_series="WEB",
        invoice_folio=InvoiceFolio.COUNTER,
        card_entry=CardEntry.TOKENS,
        alert_email="it@shop.example.com",
    ),
    "api-key-issued.v1": merchants.ApiKeyIssued(
        merchant_id=MERCHANT,
        key_id=KEY,
        key_hash="ab" * 32,
        hint="sk_test_…9f3a",
        at=AT,
        name="backend",
        scopes=("orders:write",),
        expires_at=LATER,
    ),
    "api-key-revoked.v1": merchants.ApiKeyRevoked(merchant_id=MERCHANT, key_id=KEY, at=AT),
    "processor-message-dismissed.v1": messages.ProcessorMessageDismissed(
        processor="stp",
        message_id="abono-77120934",
        kind="deposit-received",
        waited_for="no order knows what it is about",
        reason="STP confirmó que el abono era de otra cuenta",
        dismissed_by="ana",
        at=AT,
        account="backup",
    ),
    "product-imported.v1": products.ProductImported(
        product_id=PRODUCT,
        id="cafe-1kg",
        name="Café de altura, 1 kg",
        price=Decimal("389.5"),
        status="active",
        created_at=AT,
        at=LATER,
        external_id="erp-7",
        description="Grano entero",
        sku="CAF-1",
        currency="MXN",
        product_key="50201706",
        unit_key="KGM",
        unit_name="Kilogramo",
        tax_included=False,
        taxes=LINE.taxes,
        category="Café",
        image_url="https://example.com/cafe.jpg",
        stock=Decimal("12.5"),
        metadata=Raw(b'{"lot":7}'),
        attributes=Raw(b'{"roast":"medium"}'),
    ),
    **SUBSCRIPTIONS,
    "plan-created.v1": plans.PlanCreated(
        plan_id=PLAN,
        name="Café del mes",
        terms=PLAN_TERMS,
        at=AT,
        external_id="cafe-del-mes",
        description="Un kilo de café, cada mes.",
        metadata=Raw(b'{"origin":"Coatepec"}'),
        product_key="50201706",
        unit_key="KGM",
        taxes=LINE.taxes,
    ),
    "plan-details-changed.v1": plans.PlanDetailsChanged(
        plan_id=PLAN, at=AT, name="Café", description=None, product_key="50201709", unit_key="H87", taxes=LINE.taxes
    ),
    "plan-terms-changed.v1": plans.PlanTermsChanged(plan_id=PLAN, at=AT, terms=PLAN_TERMS),
    "plan-metadata-changed.v1": plans.PlanMetadataChanged(plan_id=PLAN, at=AT, metadata=Raw(b'{"origin":"Xico"}')),
    "plan-first-used.v1": plans.PlanFirstUsed(plan_id=PLAN, subscription_id=PRODUCT, at=AT),
    "plan-archived.v1": plans.PlanArchived(plan_id=PLAN, at=AT),
    "processor-account-connected.v1": accounts.ProcessorAccountConnected(
        account_id=ACCOUNT, name="stripe-mx", processor="stripe", terms=ACCOUNT_TERMS, at=AT
    ),
    "processor-account-changed.v1": accounts.ProcessorAccountChanged(account_id=ACCOUNT, terms=ACCOUNT_TERMS, at=LATER),
    "processor-account-disconnected.v1": accounts.ProcessorAccountDisconnected(account_id=ACCOUNT, at=LATER),
    "processor-account-keys-erased.v1": accounts.ProcessorAccountKeysErased(account_id=ACCOUNT, at=LATER),
    "webhook-endpoint-created.v1": webhooks.WebhookEndpointCreated(
        endpoint_id=ENDPOINT, number=3, terms=ENDPOINT_TERMS, secret_id=SECRET, at=AT
    ),
    "webhook-endpoint-changed.v1": webhooks.WebhookEndpointChanged(
        endpoint_id=ENDPOINT, terms=EndpointTerms(url="https://shop.example.com/hooks"), at=LATER
    ),
    "webhook-secret-rotated.v1": webhooks.WebhookSecretRotated(
        endpoint_id=ENDPOINT, secret_id=KEY, at=AT, previous_until=LATER
    ),
    "webhook-endpoint-disabled.v1": webhooks.WebhookEndpointDisabled(
        endpoint_id=ENDPOINT, reason=DisabledReason.GONE, at=AT
    ),
    "webhook-endpoint-enabled.v1": webhooks.WebhookEndpointEnabled(
        endpoint_id=ENDPOINT, resume=Resume.NOW, at=LATER, after_sequence=1201
    ),
    "webhook-endpoint-deleted.v1": webhooks.WebhookEndpointDeleted(endpoint_id=ENDPOINT, at=LATER),
    "api-key-rotated.v1": merchants.ApiKeyRotated(
        merchant_id=MERCHANT, key_id=KEY, replaced_by=METHOD, expires_at=LATER, at=AT
    ),
    "request-accepted.v1": requests.RequestAccepted(
        fingerprint="cd" * 32, stream_id=ORDER, at=AT, payment_id=PAYMENT, refund_id=REFUND
    ),
    "request-answered.v1": requests.RequestAnswered(stream_version=7, created=True, at=AT, replayed=True),
    "request-refused.v1": requests.RequestRefused(
        fingerprint="cd" * 32,
        code="AMOUNT_EXCEEDS_PENDING",
        message="The amount exceeds what is still to be paid.",
        facts=Raw(b'{"amountPending":"100"}'),
        at=AT,
    ),
    "request-released.v1": requests.RequestReleased(at=AT),
    "request-completed.v1": requests.RequestCompleted(
        fingerprint="cd" * 32, result=Raw(b'{"created":1,"updated":0,"failed":[]}'), at=AT
    ),
}


DATA_KEY, NONCE, VERSION = bytes(range(32)), bytes(range(12)), 7
SEAL = Seal(AESGCM(DATA_KEY), MERCHANT.bytes + CUSTOMER.bytes, ORDER.bytes, draw=lambda length: NONCE[:length])
"""The seal of the stored samples: its key, nonce and place are fixed, so that the bytes never change."""

SEALED = [topic for topic, sample in SAMPLES.items() if CODEC.may_be_personal([sample])]


def write_missing() -> None:
    """Writes the missing samples, and a sealed one for each topic with personal data."""
    golden = Path(__file__).parents[1] / "golden"
    sealed = golden / "sealed"
    sealed.mkdir(parents=True, exist_ok=True)
    for topic, sample in SAMPLES.items():
        _write(golden / f"{topic}.json", CODEC.encode(sample).data)
        if topic in SEALED:
            _write(sealed / f"{topic}.json", CODEC.encode_sealed(sample, VERSION, SEAL).data)


def _write(path: Path, data: bytes) -> None:
    if not path.exists():
        path.write_bytes(data)


if __name__ == "__main__":
    write_missing()
