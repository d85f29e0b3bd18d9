"""Which event announces which call to an outside system: one line for each. `docs/how-to/add-a-call.md` shows how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ledger.domain.orders import events as orders
from ledger.domain.orders.global_invoices import events as global_invoices
from ledger.domain.orders.invoices import events as invoices
from ledger.domain.orders.invoices import mail_events as mails
from ledger.domain.payment_methods import events as cards
from ledger.domain.subscriptions import events as subscriptions
from ledger.domain.subscriptions import notice_events as notices
from ledger.operations.global_invoices.provider_call import global_call
from ledger.operations.orders.due.remind import reminder_call
from ledger.operations.orders.invoices.mail import mail_call
from ledger.operations.orders.invoices.provider_calls import document_call
from ledger.operations.orders.processor_call import processor_call, withdrawal_call
from ledger.operations.payment_methods.sessions import withdrawal_of
from ledger.operations.payment_methods.verification_call import verification_call
from ledger.operations.pipeline.calls import Call
from ledger.operations.subscriptions.charge import charge_call
from ledger.operations.subscriptions.notify import notice_call

CALLS: Final[Mapping[type[Any], Callable[..., Call | None]]] = {
    orders.AuthorizationRequested: processor_call,
    orders.AuthenticationRequested: processor_call,
    orders.CaptureRequested: processor_call,
    orders.VoidRequested: processor_call,
    orders.SessionEndRequested: processor_call,
    orders.ReleaseRequested: processor_call,
    orders.RefundRequested: processor_call,
    orders.PayoutRequested: processor_call,
    orders.ReferenceRequested: processor_call,
    orders.CallRepeated: processor_call,
    orders.PaymentCancelled: withdrawal_call,
    invoices.StampingRequested: document_call,
    invoices.DocumentCancellationRequested: document_call,
    mails.DocumentMailRequested: mail_call,
    global_invoices.GlobalStampingRequested: global_call,
    global_invoices.GlobalCancellationRequested: global_call,
    orders.ReminderRequested: reminder_call,
    cards.CardVerificationRequested: verification_call,
    cards.CardVerificationResumed: verification_call,
    cards.CardVerificationEnded: withdrawal_of,
    subscriptions.ChargeBegun: charge_call,
    notices.NoticeRequested: notice_call,
}
"""The call of each event, from the ledger, the merchant, the stream's state after the commit, the event and the secrets
of the request; None if it is not to be made.
"""
