"""The actions of a payer, as JSON: transfer, pay in cash, pass 3-D Secure.

Rendering is a pure function of the state. For most payments, by card without 3-D Secure, it costs only the tests that
find this out.
"""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from ledger.domain.orders.payment import Payment
from ledger.domain.orders.statuses import NextAction, PaymentStatus
from ledger.domain.orders.terms import MethodType
from projections.formats import Moment, moment, moment_or_null

_REQUIRED_BY: Final = {
    NextAction.DEVICE_DATA: "DEVICE_DATA_REQUIRED",
    NextAction.CHALLENGE: "CHALLENGE_REQUIRED",
    NextAction.REDIRECT: "CHALLENGE_REQUIRED",
}


class SpeiDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The account for a bank transfer."""

    id: Annotated[UUID, Meta(description="The id of the one-time payment method.")]
    clabe: Annotated[str | None, Meta(description="18 digits, the last of which is a check digit.")]
    expires_at: Annotated[
        Moment | None,
        Meta(description="The end of the time that the payer is given. Money that arrives later still counts."),
    ]
    created_at: Moment
    updated_at: Moment


class CieDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The reference for a payment in cash or at the bank."""

    id: Annotated[UUID, Meta(description="The id of the one-time payment method.")]
    reference: Annotated[str | None, Meta(description="The reference that the payer gives at the counter.")]
    convenio: Annotated[str | None, Meta(description="The bank's number for payments from the same bank.")]
    clabe: Annotated[str | None, Meta(description="The account for payments from another bank.")]
    channel: Annotated[str | None, Meta(description="The network of cash: PAYCASH or OXXO, else null.")]
    voucher_url: Annotated[str | None, Meta(description="The page of the voucher that the payer shows at the store.")]
    expires_at: Annotated[
        Moment | None,
        Meta(description="The end of the time that the payer is given. Money that arrives later still counts."),
    ]
    created_at: Moment
    updated_at: Moment


class PayerAuthenticationDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A 3-D Secure session: what the payer's browser needs, and the result."""

    status: Annotated[
        str,
        Meta(description="DEVICE_DATA_REQUIRED, CHALLENGE_REQUIRED, AUTHENTICATED, FAILED or EXPIRED."),
    ]
    payment_id: Annotated[UUID, Meta(description="The payment whose payer is authenticated.")]
    authentication_transaction_id: Annotated[
        str | None, Meta(description="The id of the transaction, to be sent to `validate`.")
    ]
    reference_id: Annotated[str | None, Meta(description="The id of the session.")]
    device_data_collection_url: Annotated[str | None, Meta(description="The page that collects the device data.")]
    access_token: Annotated[str | None, Meta(description="The access token for the pages of the session.")]
    step_up_url: Annotated[str | None, Meta(description="The page of the challenge or of the redirect.")]
    three_ds_version: Annotated[str | None, Meta(description="The version of the 3-D Secure protocol.")] = (
        msgspec.field(name="threeDSVersion")
    )
    eci: Annotated[
        str | None,
        Meta(
            description="The card network's electronic commerce indicator, once the authentication has ended: 05 "
            "authenticated, 06 attempted, 07 failed or none; 02, 01 and 00 for Mastercard. It decides who is "
            "liable for fraud."
        ),
    ]
    expires_at: Annotated[Moment | None, Meta(description="When the session ends.")]


def spei_details(payment: Payment) -> SpeiDocument | None:
    """Returns the account for a transfer, once the reference is issued."""
    reference, at = payment.reference, payment.reference_issued_at
    if reference is None or at is None or payment.started.method.type is not MethodType.SPEI:
        return None
    return SpeiDocument(
        id=payment.started.method.method_id,
        clabe=reference.clabe or reference.reference,
        expires_at=moment_or_null(payment.reference_expires_at),
        created_at=moment(at),
        updated_at=moment(at),
    )


def cie_details(payment: Payment) -> CieDocument | None:
    """Returns the reference for a payment in cash, once it is issued. PAYCASH has no convenio and no CLABE (N16)."""
    reference, at = payment.reference, payment.reference_issued_at
    if reference is None or at is None or payment.started.method.type is MethodType.SPEI:
        return None
    paycash = payment.started.method.type is MethodType.PAYCASH
    return CieDocument(
        id=payment.started.method.method_id,
        reference=reference.reference,
        convenio=None if paycash else reference.convenio,
        clabe=None if paycash else reference.clabe,
        channel=channel_of(payment),
        voucher_url=reference.voucher_url,
        expires_at=moment_or_null(payment.reference_expires_at),
        created_at=moment(at),
        updated_at=moment(at),
    )


def channel_of(payment: Payment) -> str | None:
    """Returns the network at which a payment in cash is paid: the processor's own, or the method's (contract N16)."""
    if payment.started.method.type is not MethodType.PAYCASH:
        return None
    return (payment.reference and payment.reference.channel) or "PAYCASH"


def payer_authentication(payment: Payment) -> PayerAuthenticationDocument | None:
    """Returns the payment's 3-D Secure session with its status, or None if the payment never had one (N17)."""
    session = payment.session
    if session is None:
        return None
    return PayerAuthenticationDocument(
        status=_authentication_status(payment),
        payment_id=payment.payment_id,
        authentication_transaction_id=session.transaction_id,
        reference_id=session.reference_id,
        device_data_collection_url=session.device_data_collection_url,
        access_token=session.access_token,
        step_up_url=session.step_up_url,
        three_ds_version=session.three_ds_version,
        eci=_eci(payment),
        expires_at=moment_or_null(payment.action_expires_at),
    )


def _eci(payment: Payment) -> str | None:
    """Returns the network's indicator of the authentication, whether it succeeded or failed."""
    if payment.authenticated is not None:
        return payment.authenticated.eci
    return None if payment.failure is None else payment.failure.eci


def _authentication_status(payment: Payment) -> str:
    if payment.authenticated is not None:
        return "AUTHENTICATED"
    if payment.next_action is not None:
        return _REQUIRED_BY[payment.next_action]
    return "FAILED" if payment.status is PaymentStatus.FAILED else "EXPIRED"
