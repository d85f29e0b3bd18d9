"""The mutants: for each guard of the ledger, the change that takes it out, and the tests that should notice.

The list has the guards of money, idempotency, the fence of writers and late calls, and secrets. Add a mutant
with every new guard of these four kinds.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]


class Mutant(NamedTuple):
    """A guard's absence: `new` in place of `old` in `file`, and the tests of which one has to fail then.

    `protects` is what the guard prevents. `old` occurs once in the file. A test is a file, or `file::function`.
    """

    name: str
    protects: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def problem(self) -> str | None:
        """Returns why this mutant cannot be tested, None where it can."""
        text = (ROOT / self.file).read_text()
        if (count := text.count(self.old)) != 1:
            return (
                f"{self.name}: its old text occurs {count} times in {self.file}, not once: bring the mutant up to date"
            )
        if self.file.endswith(".py"):
            try:
                compile(text.replace(self.old, self.new), self.file, "exec")
            except SyntaxError as error:
                return f"{self.name}: its new text makes {self.file} invalid: {error}"
        for test in self.tests:
            file, _, function = test.partition("::")
            if not (ROOT / file).is_file():
                return f"{self.name}: there is no {file}"
            if function and not re.search(rf"^(async )?def {function}\(", (ROOT / file).read_text(), re.MULTILINE):
                return f"{self.name}: {file} has no {function}"
        return None


_STATEMENT: Final = "src/ledger/journal/commit/append_statement.py"
_BATCH: Final = "src/ledger/journal/commit/batch.py"
_GROUP_COMMIT: Final = "src/ledger/journal/commit/group_commit.py"
_CODEC: Final = "src/ledger/journal/codec.py"
_SEALING: Final = "src/ledger/journal/encryption/sealing.py"
_ORDER_EVENTS: Final = "src/ledger/domain/orders/events.py"
_DECIDE: Final = "src/ledger/domain/orders/decide"
_PAYMENT: Final = "src/ledger/domain/orders/payment.py"
_PIPELINE: Final = "src/ledger/operations/pipeline"
_RECOVERY: Final = "src/ledger/background/recovery.py"
_INBOX: Final = "src/ledger/processors/inbox_store.py"
_CONSUMER: Final = "src/ledger/background/inbox/consumer.py"
_MESSAGES: Final = "src/ledger/processors/messages.py"
_HTTP: Final = "src/api/http"
_STORED_TEXT: Final = "src/api/decoding/stored_text.py"
_PREPARE: Final = "src/ledger/postgres/prepare.py"
_EMBEDDED: Final = "src/ledger/postgres/embedded"
_ACCESS_TESTS: Final = "tests/postgres/test_embedded_access.py"
_CLOCK: Final = "src/ledger/background/clock"
_MOVE_TESTS: Final = "tests/background/test_moves.py"
_PAYER_PAGES: Final = "tests/api/sandbox/test_payer_pages.py"
_VERIFICATIONS: Final = "tests/operations/test_card_verification.py"
_STAMPING: Final = "src/ledger/domain/invoices/decide/stamping.py"
_NOTE_TESTS: Final = "tests/domain/invoices/test_failed_notes.py"
_SPLIT_ORDERS: Final = "src/ledger/domain/invoices/split_orders.py"
_SINGLE_ORDERS: Final = "src/ledger/domain/invoices/single_orders.py"
_SPLIT_TESTS: Final = "tests/domain/invoices/test_split_orders.py"
_CORE_TESTS: Final = "tests/domain/invoices/test_stamping.py"
_WORKER_TESTS: Final = "tests/background/test_stamping.py"

_GLOBAL: Final = "tests/domain/test_global_invoices.py"
_SELF_INVOICE: Final = "tests/api/invoices/test_self_invoice.py"

MONEY: Final = (
    Mutant(
        "fraction-that-no-processor-moves",
        "no processor is asked for a fraction that it would round",
        f"{_DECIDE}/guards.py",
        "if not is_multiple(amount, smallest):",
        "if amount < 0:",
        ("tests/domain/test_create.py::test_an_amount_that_the_processor_cannot_move_is_refused_before_any_event",),
    ),
    Mutant(
        "unknown-field-for-a-strict-merchant",
        "a merchant that refuses unknown fields has no order with one",
        "src/api/decoding/unknown_names.py",
        "elif self._policy.rejects:",
        "elif not name:",
        ("tests/api/http/test_unknown_names.py::test_a_merchant_may_refuse_every_unknown_name",),
    ),
    Mutant(
        "choice-that-is-ignored",
        "a request that names one payment or document acts on no other one because its operation lacks the name",
        "src/api/decoding/unknown_names.py",
        "elif not place and self._refuse_choice(name, known):",
        "elif not place and self._refuse_choice and not name:",
        ("tests/api/http/test_unknown_names.py::test_a_choosing_name_widens_no_request",),
    ),
    Mutant(
        "invoice-cancelled-for-its-receipt",
        "a cancellation that names its document by complementId does not cancel the invoice",
        "src/api/orders/invoices/cancel.py",
        "motive=sent.motive, document_id=document_id,",
        "motive=sent.motive, document_id=sent.document_id,",
        ("tests/api/invoices/test_stamp.py::test_an_invoice_with_receipts_is_cancelled_after_them",),
    ),
    Mutant(
        "name-that-comes-twice",
        "an amount that a body has twice moves no money",
        "src/api/decoding/repeated_names.py",
        "    if has_repeated_name(body):",
        "    if False:",
        ("tests/api/http/test_field_errors.py",),
    ),
    Mutant(
        "amount-changed-under-a-payment",
        "the amount of an order stays once a payment has begun",
        f"{_DECIDE}/changes.py",
        "if order.payments or order.status is not OrderStatus.PENDING:",
        "if order.status is not OrderStatus.PENDING and not order.payments:",
        ("tests/domain/test_changes.py::test_an_amount_stays_once_a_payment_has_begun",),
    ),
    Mutant(
        "lines-changed-under-an-invoice",
        "what a stamped invoice states is not changed",
        f"{_DECIDE}/changes.py",
        "    if invoice.stamp is not None:",
        "    if invoice.stamp is None and invoice.is_cancelled:",
        ("tests/api/orders/test_changes.py::test_what_an_invoice_states_changes_until_it_is_stamped",),
    ),
    Mutant(
        "invoice-of-former-lines",
        "an invoice is stamped with the lines that its order has",
        "src/ledger/domain/invoices/decide/announcements.py",
        "is_fresh and is_same and not document.is_outdated",
        "is_fresh and is_same",
        ("tests/api/orders/test_changes.py::test_what_an_invoice_states_changes_until_it_is_stamped",),
    ),
    Mutant(
        "payment-above-the-order",
        "payments never exceed what is unpaid and not reserved",
        f"{_DECIDE}/payments.py",
        "if amount > order.unpaid_subtotal - order.reserved:",
        "if False:",
        ("tests/domain/test_charge.py",),
    ),
    Mutant(
        "payment-ignores-reservations",
        "two parts of an order that are authorised at once do not exceed it together",
        f"{_DECIDE}/payments.py",
        "if amount > order.unpaid_subtotal - order.reserved:",
        "if amount > order.unpaid_subtotal:",
        ("tests/domain/test_charge.py",),
    ),
    Mutant(
        "capture-above-the-authorisation",
        "a capture does not exceed what is left of its authorisation",
        f"{_DECIDE}/captures.py",
        "if amount > left:",
        "if False:",
        ("tests/domain/test_captures.py",),
    ),
    Mutant(
        "capture-after-a-release",
        "nothing is captured of a rest that was released",
        _PAYMENT,
        "return ZERO if self.hold_ended_at is not None else max(",
        "return max(",
        ("tests/domain/test_releases.py",),
    ),
    Mutant(
        "capture-beside-a-release",
        "no capture takes the place of a release whose outcome is not known",
        f"{_DECIDE}/captures.py",
        "payment.capturable > 0 and payment.intent is None",
        "payment.capturable > 0",
        ("tests/domain/test_releases.py",),
    ),
    Mutant(
        "refund-beside-a-release",
        "no refund takes the place of a release whose outcome is not known",
        f"{_DECIDE}/refunds.py",
        "if any(payment.is_being_released for payment in asked):",
        "if False:",
        (
            "tests/domain/test_releases.py::test_no_refund_and_no_cancellation_takes_the_place_of_a_release_that_is_under_way",
        ),
    ),
    Mutant(
        "release-that-hides-captured-money",
        "money whose capture is reported after a release counts",
        f"{_DECIDE}/captures.py",
        "case PaymentStatus.PARTIALLY_CAPTURED if payment.intent is None and payment.hold_ended_at is None:",
        "case PaymentStatus.PARTIALLY_CAPTURED if payment.intent is not None:\n            return []\n"
        "        case PaymentStatus.PARTIALLY_CAPTURED:",
        ("tests/domain/test_releases.py::test_what_the_processor_captured_counts_after_a_release",),
    ),
    Mutant(
        "payout-by-hand-and-by-processor",
        "a refund that a processor pays out is not confirmed by the merchant, and its account stays",
        "src/ledger/domain/orders/refund.py",
        "return self.status is RefundStatus.PENDING and self.destination_type is DestinationType.MANUAL",
        "return self.status is RefundStatus.PENDING",
        ("tests/domain/test_payouts.py",),
    ),
    Mutant(
        "confirmed-payout-twice",
        "a confirmed refund is paid out once",
        f"{_DECIDE}/payouts.py",
        "    parts = [part for part in refund.parts if part.is_paid_out_by_hand]",
        "    parts = list(refund.parts)",
        ("tests/domain/test_payouts.py::test_a_confirmed_refund_is_not_paid_out_by_the_processor",),
    ),
    Mutant(
        "payout-to-one-of-two-accounts",
        "money that came from two accounts is not paid out to one of them",
        _PAYMENT,
        "return self.senders[0] if len(set(self.senders)) == 1 else None",
        "return self.senders[-1] if self.senders else None",
        ("tests/domain/test_payouts.py::test_deposits_from_two_accounts_name_none",),
    ),
    Mutant(
        "captured-money-twice",
        "the outcome of one capture counts once",
        f"{_DECIDE}/captures.py",
        "if command.idempotency_key in payment.capture_keys:",
        "if False:",
        ("tests/domain/test_captures.py",),
    ),
    Mutant(
        "refund-above-the-captured-money",
        "a refund of one payment does not exceed what it holds",
        f"{_DECIDE}/refunds.py",
        "        if amount > payment.refundable:",
        "        if False:",
        ("tests/domain/test_refunds.py",),
    ),
    Mutant(
        "refund-above-all-captured-money",
        "a refund over several payments does not exceed what they hold together",
        f"{_DECIDE}/refunds.py",
        "    if amount <= refundable:\n        return _allocate(free, amount)",
        "    if free:\n        return _allocate(free, amount)",
        ("tests/domain/test_refunds.py",),
    ),
    Mutant(
        "refund-in-flight-not-reserved",
        "the amount of a refund in flight counts as gone already",
        _PAYMENT,
        "return max(ZERO, self.captured - self.refunded - self.refunding)",
        "return max(ZERO, self.captured - self.refunded)",
        ("tests/domain/test_refund_examples.py",),
    ),
    Mutant(
        "two-refunds-in-flight",
        "one payment has one refund in flight",
        f"{_DECIDE}/refunds.py",
        "        if payment.refunding:",
        "        if False:",
        ("tests/domain/test_refund_examples.py",),
    ),
    Mutant(
        "refund-overwritten-by-an-older-outcome",
        "a refund that has succeeded stays so, whatever arrives later",
        f"{_DECIDE}/refunds.py",
        "    if part.status is RefundStatus.PENDING:",
        "    if part.status is not RefundStatus.FAILED:",
        ("tests/domain/test_refund_examples.py", "tests/domain/test_refunds.py"),
    ),
    Mutant(
        "dispute-above-the-held-money",
        "a dispute does not take more than is held",
        f"{_DECIDE}/disputes_and_settlement.py",
        "    if amount > held:",
        "    if False:",
        ("tests/domain/test_disputes.py",),
    ),
    Mutant(
        "chargeback-beyond-the-held-money",
        "a lost dispute takes at most what the payment holds",
        "src/ledger/domain/orders/evolve/disputes.py",
        "    taken = min(event.amount, payment.refundable)",
        "    taken = event.amount",
        ("tests/domain/test_disputes.py",),
    ),
    Mutant(
        "deposit-twice",
        "a deposit counts once for its id",
        f"{_DECIDE}/references.py",
        "if command.deposit_id in payment.deposits:",
        "if False:",
        ("tests/domain/test_references.py",),
    ),
    Mutant(
        "deposit-in-another-currency",
        "money in another currency pays nothing",
        "src/ledger/background/inbox/message_handlers.py",
        "if message.currency != order.terms.currency:",
        "if False:",
        ("tests/background/test_inbox.py",),
    ),
    Mutant(
        "late-capture-ignored",
        "money that a processor reports on a payment that has ended is recorded",
        f"{_DECIDE}/authorizations.py",
        "    return [\n        LateCaptureReported(",
        "    return [] and [\n        LateCaptureReported(",
        ("tests/domain/test_authorization_outcomes.py",),
    ),
    Mutant(
        "captured-money-counted-twice",
        "an approval that repeats captured money adds nothing",
        f"{_DECIDE}/authorizations.py",
        "captured = shortest(approval.captured - payment.captured)",
        "captured = shortest(approval.captured)",
        ("tests/domain/test_authorization_outcomes.py",),
    ),
    Mutant(
        "cancelled-order-with-money",
        "an order that holds money is not closed as cancelled",
        f"{_DECIDE}/closing.py",
        "if after.net > 0 or any(payment.is_uncaptured for payment in after.payments):",
        "if any(payment.is_uncaptured for payment in after.payments):",
        ("tests/domain/test_cancellation.py",),
    ),
    Mutant(
        "payout-to-another-account",
        "a payout whose destination was erased is not sent to the account that the money came from",
        f"{_DECIDE}/unanswered_calls.py",
        "return not (is_payout and order.payer_forgotten)",
        "return True",
        ("tests/domain/test_repeated_calls.py",),
    ),
    Mutant(
        "missing-answer-taken-for-a-decline",
        "an authorisation without an answer stays open",
        f"{_DECIDE}/authorizations.py",
        "return [] if _is_marked_unknown(payment) else [_unknown(payment, outcome, at)]",
        "return [_abandoned(payment, AbandonedBecause.NOT_FOUND, at)]",
        ("tests/domain/test_authorization_outcomes.py",),
    ),
    Mutant(
        "second-charge-of-a-subscription",
        "no charge of a subscription begins while another is in progress",
        "src/ledger/domain/subscriptions/decide/changes.py",
        "    if invoice is None or state.charge is not None:",
        "    if invoice is None:",
        ("tests/domain/test_subscriptions.py",),
    ),
    Mutant(
        "money-without-a-subscription",
        "money that no invoice of a subscription needs goes back",
        "src/ledger/domain/subscriptions/decide/charges.py",
        "    if invoice is None:\n        return True",
        "    if invoice is None:\n        return False",
        ("tests/domain/test_subscriptions.py",),
    ),
    Mutant(
        "credit-note-with-another-amount",
        "an announced document keeps its amount, whatever comes later",
        _SPLIT_ORDERS,
        "amount = frozen_amount(document) if document else min(self._excess(), self._cancelled_amount(slot))",
        "amount = self._excess()",
        (f"{_CORE_TESTS}::test_a_credit_note_of_an_older_release_keeps_its_amount",),
    ),
    Mutant(
        "credit-notes-above-what-went-back",
        "the credit notes of one payment state at most what the order no longer holds of the invoice",
        _SINGLE_ORDERS,
        "missing -= each.take(missing)",
        "missing -= each.take(-each.movement.change)",
        ("tests/domain/invoices/test_refunds_of_one_payment.py",),
    ),
    Mutant(
        "cancelled-note-replaced-by-another",
        "a credit note that the merchant cancelled comes again on request alone",
        _SINGLE_ORDERS,
        "missing -= each.take(min(missing, each.cancelled))",
        "missing -= each.take(ZERO)",
        ("tests/domain/invoices/test_refunds_of_one_payment.py",),
    ),
    Mutant(
        "receipts-above-their-invoice",
        "receipts pay an invoice at most once: money after a credit note gets a further invoice",
        _SPLIT_ORDERS,
        "amount = min(missing, first.unpaid) if document is None",
        "amount = missing if document is None",
        (_SPLIT_TESTS,),
    ),
    Mutant(
        "further-invoice-without-an-end",
        "no receipt of a further invoice is drawn up before the invoice is stamped",
        "src/ledger/domain/invoices/decide/announcements.py",
        "if not has_invoice(invoices, due):\n            break",
        "if not has_invoice(invoices, due):\n            continue",
        (_SPLIT_TESTS,),
    ),
    Mutant(
        "credit-note-of-an-overpayment",
        "a credit note is about a refund of money that receipts state",
        _SPLIT_ORDERS,
        "yield refund, min(self._excess(), refund.room, stated_beyond)",
        "yield refund, min(self._excess(), refund.room)",
        (_SPLIT_TESTS,),
    ),
    Mutant(
        "invoice-cancelled-before-its-credit-note",
        "an invoice whose order was refunded in part stays until its credit note is stamped and cancelled",
        "src/ledger/domain/invoices/decide/cancellation.py",
        "isinstance(document.terms, InvoiceTerms) and _awaits_credit_note(order)",
        "False",
        ("tests/domain/invoices/test_refunds_of_one_payment.py",),
    ),
    Mutant(
        "invoice-anew-by-a-request-for-others",
        "a cancelled invoice is replaced by a request for it alone",
        "src/ledger/domain/invoices/decide/announcements.py",
        "invoice.is_cancelled and wants_invoice(command.request)",
        "invoice.is_cancelled and requested",
        ("tests/domain/invoices/test_invoices_anew.py",),
    ),
    Mutant(
        "folio-counted-again",
        "a document that is tried again keeps the number of the counter",
        "src/ledger/domain/orders/invoices/evolve.py",
        "is_counted=document.is_counted or event.folio is not None",
        "is_counted=False",
        ("tests/domain/invoices/test_folios.py",),
    ),
    Mutant(
        "folio-given-twice",
        "the counter of a series gives no number twice",
        "src/ledger/invoicing/issuers.py",
        "do update set last = f.last + 1 returning last",
        "do update set last = f.last returning last",
        ("tests/background/test_folio_counter.py",),
    ),
    Mutant(
        "cancellation-refused-by-a-lost-answer",
        "no invoice is cancelled beside a credit note of the same refund",
        "src/ledger/domain/invoices/decide/cancellation.py",
        "return [DocumentCancellationPending(document_id=document_id, at=at, message=message, unanswered=True)]",
        'return [DocumentCancellationRefused(document_id=document_id, code="ACTIVE", message=message, at=at)]',
        (_NOTE_TESTS,),
    ),
    Mutant(
        "note-during-the-cancellation-of-its-invoice",
        "an invoice that is cancelled has no credit note",
        "src/ledger/domain/orders/invoices/state.py",
        "if before or self._waits_for_cancellation(document):",
        "if before:",
        (_NOTE_TESTS,),
    ),
    Mutant(
        "invoice-cancelled-while-its-note-is-stamped",
        "an invoice that is cancelled has no credit note",
        "src/ledger/domain/invoices/decide/cancellation.py",
        "(each.stamp is not None or each.intent is not None)",
        "each.stamp is not None",
        (_NOTE_TESTS,),
    ),
    Mutant(
        "cancellation-ended-by-an-earlier-call",
        "no invoice is cancelled beside a credit note of the same refund",
        "src/ledger/operations/orders/invoices/provider_calls.py",
        "if not is_own and not isinstance(outcome, Cancelled):",
        "if False:",
        ("tests/background/test_lost_cancellations.py",),
    ),
    Mutant(
        "stamp-ended-by-an-earlier-call",
        "no document is sent again while the provider may be stamping it",
        "src/ledger/operations/stamping/stamping_call.py",
        "current.deadline_at != self.deadline_at and not isinstance(outcome, Stamped):",
        "False:",
        ("tests/operations/test_stamping_call.py",),
    ),
    Mutant(
        "timer-settles-calls-before-the-setting",
        "no call is settled as never arrived while its provider may still carry it out",
        "src/ledger/operations/pipeline/calls.py",
        "late_s=ledger.call_timeouts.not_found_late_s",
        "late_s=30.0",
        ("tests/operations/test_card_verification.py::test_a_timer_takes_not_found_as_final_when_the_setting_says",),
    ),
    Mutant(
        "charge-by-another-order",
        "an order that a merchant made under the external id of a charge pays nothing of a subscription",
        "src/ledger/operations/orders/create.py",
        "if request.order_id not in {None, existing}:",
        "if False:",
        ("tests/subscriptions/test_foreign_orders.py",),
    ),
    Mutant(
        "pending-lines-without-a-bound",
        "at most 100 lines wait for the next invoice of a subscription",
        "src/ledger/domain/subscriptions/decide/changes.py",
        "        if len(waiting) > PENDING_LINES_MAX:",
        "        if False:",
        ("tests/domain/test_subscriptions.py",),
    ),
    Mutant(
        "pending-lines-replaced",
        "a change of plan adds its lines to those that wait",
        "src/ledger/domain/subscriptions/evolve.py",
        "earlier = state.carried if isinstance(event, ProrationDeferred) else ()",
        "earlier = ()",
        ("tests/domain/test_subscriptions.py",),
    ),
    Mutant(
        "change-back-by-other-seconds",
        "a change of plan that is changed back costs nothing",
        "src/ledger/domain/subscriptions/proration.py",
        "    if has_same_length(terms, billed.terms):",
        "    if False:",
        ("tests/domain/test_subscriptions.py",),
    ),
    Mutant(
        "missed-period-charged-unasked",
        "a period that was missed while UNPAID is charged on request alone",
        "src/ledger/domain/subscriptions/state.py",
        "if invoice.status is InvoiceStatus.OPEN), None)",
        "if invoice.is_collectable), None)",
        ("tests/domain/test_subscription_debts.py",),
    ),
    Mutant(
        "missed-period-charged-twice",
        "no time is charged both as a missed period and as the one that replaces it",
        "src/ledger/domain/subscriptions/decide/steps.py",
        "    if not state.is_period_missed or is_over:",
        "    if True:",
        ("tests/domain/test_subscription_debts.py",),
    ),
    Mutant(
        "credit-of-a-missed-period",
        "a period that was not charged gives no credit",
        "src/ledger/domain/subscriptions/decide/changes.py",
        " or state.is_period_missed:",
        ":",
        ("tests/domain/test_subscription_debts.py",),
    ),
    Mutant(
        "last-lines-for-nothing",
        "lines that wait when a subscription ends are charged",
        "src/ledger/domain/subscriptions/decide/steps.py",
        "    if total(state.carried) <= 0:",
        "    if True:",
        ("tests/domain/test_subscription_debts.py",),
    ),
    Mutant(
        "credit-of-a-refunded-period",
        "what was refunded of a period gives no credit",
        "src/ledger/domain/subscriptions/proration.py",
        "    credit = max(ZERO, credit - before.refunded)\n",
        "",
        ("tests/domain/test_subscription_debts.py",),
    ),
    Mutant(
        "credit-kept-after-a-refund",
        "a refund takes back a waiting credit for the same period",
        "src/ledger/domain/subscriptions/proration.py",
        "    if amount <= 0:",
        "    if True:",
        ("tests/domain/test_subscription_debts.py",),
    ),
    Mutant(
        "outcome-of-an-earlier-payment",
        "the outcome of an earlier payment does not end a charge that began again",
        "src/ledger/domain/subscriptions/decide/charges.py",
        "    if charge is None or charge.payment_id != command.payment_id:",
        "    if charge is None:",
        ("tests/domain/test_subscriptions.py",),
    ),
    Mutant(
        "unmade-periods-charged",
        "a period that no worker has made is missed as well if the subscription was UNPAID when it began",
        "src/ledger/domain/subscriptions/decide/steps.py",
        "            events = [*_missed_periods(state, at), *events, SubscriptionActivated(at=at)]",
        "            events = [*events, SubscriptionActivated(at=at)]",
        ("tests/domain/test_subscription_debts.py",),
    ),
    Mutant(
        "charge-after-the-end",
        "a charge that no order has taken is not sent once its subscription has ended",
        "src/ledger/operations/subscriptions/charge.py",
        "            return ChargeNotSent() if self._is_over else await self.send()",
        "            return await self.send()",
        ("tests/subscriptions/test_unknown_charges.py",),
    ),
    Mutant(
        "unsent-charge-read-from-the-order",
        "a charge that began again is sent, whatever its order's earlier payment came to",
        "src/ledger/operations/subscriptions/charge.py",
        "        if order is None or not order.has_payment(self.payment_id):",
        "        if order is None:",
        ("tests/subscriptions/test_unknown_charges.py",),
    ),
    Mutant(
        "the-card-of-a-last-invoice",
        "the card that a last invoice is charged to is not deleted before",
        "src/ledger/domain/subscriptions/state.py",
        "is_charged = self.is_live or is_requested or (self.is_shown and self.oldest_open is not None)",
        "is_charged = self.is_live or is_requested",
        ("tests/subscriptions/test_billing.py::test_a_card_is_in_use_until_the_last_invoice_has_been_charged",),
    ),
)

IDEMPOTENCY: Final = (
    Mutant(
        "key-with-another-request",
        "an idempotency key is refused with another request",
        f"{_PIPELINE}/idempotency.py",
        "if not hmac.compare_digest(record.fingerprint, uow.key.fingerprint):",
        "if False:",
        ("tests/operations/test_idempotency.py", "tests/api/products/test_import.py"),
    ),
    Mutant(
        "key-without-replay",
        "a repeated request is answered without a second call",
        f"{_PIPELINE}/execute_request.py",
        "record = None if uow.key is None else await find_record(uow)",
        "record = None",
        ("tests/operations/test_idempotency.py",),
    ),
    Mutant(
        "key-answered-while-its-call-is-open",
        "a repeated request is not answered while the first one is under way",
        "src/ledger/operations/orders/order_request.py",
        "    if has_open_call(order, target):\n        raise in_progress()",
        "    if False:\n        raise in_progress()",
        ("tests/operations/test_idempotency.py",),
    ),
    Mutant(
        "key-answered-with-a-newer-order",
        "a repeated request gets the order as it was answered then",
        f"{_PIPELINE}/execute_stream.py",
        "fold(stream.evolve, None, events[:version])",
        "fold(stream.evolve, None, events)",
        ("tests/operations/test_idempotency.py",),
    ),
    Mutant(
        "two-requests-of-one-key",
        "of two simultaneous requests under one key, one is executed",
        f"{_PIPELINE}/unit_of_work.py",
        "        changes = plan.changes if record is None else [*plan.changes, record]",
        "        changes = plan.changes",
        ("tests/operations/test_idempotency.py",),
    ),
    Mutant(
        "rejection-not-recorded",
        "a rejection that lasts is repeated under its key",
        f"{_PIPELINE}/idempotency.py",
        "    if rejection.lasting:",
        "    if False:",
        ("tests/operations/test_idempotency.py",),
    ),
    Mutant(
        "fingerprint-without-the-body",
        "the fingerprint of a request includes its body",
        f"{_HTTP}/idempotency_key.py",
        "content = _encode([method, path, _without_secrets(msgspec.json.decode(body))])",
        "content = _encode([method, path])",
        ("tests/api/http/test_idempotency_key.py",),
    ),
    Mutant(
        "same-payment-twice",
        "a payment with a known external id is not made again",
        f"{_DECIDE}/payments.py",
        "existing = None if payment.external_id is None else order.payment_by_external_id(payment.external_id)",
        "existing = None",
        ("tests/domain/test_charge.py",),
    ),
    Mutant(
        "same-refund-twice",
        "a refund with a known external id is not made again",
        f"{_DECIDE}/refunds.py",
        "existing = None if command.external_id is None else order.refund_by_external_id(command.external_id)",
        "existing = None",
        ("tests/domain/test_refunds.py",),
    ),
    Mutant(
        "resubmission-with-another-amount",
        "an order's external id with another amount is refused",
        f"{_DECIDE}/payments.py",
        "        if requested != current:",
        "        if False:",
        ("tests/domain/test_create.py", "tests/operations/test_orders.py"),
    ),
    Mutant(
        "append-without-claim-check",
        "an external id belongs to one stream",
        _STATEMENT,
        "where t.merchant_id = k.m and t.kind = k.kind and t.key = k.key limit 1) taken on true",
        "where false limit 1) taken on true",
        ("tests/journal/test_writer.py",),
    ),
    Mutant(
        "one-key-twice-in-a-batch",
        "two commands that claim one key share no batch: both would find it free",
        _BATCH,
        "and self._claimed.isdisjoint(claimed)",
        "",
        ("tests/journal/test_batch.py",),
    ),
    Mutant(
        "message-stored-twice",
        "a message with a known id changes nothing",
        _INBOX,
        "values (%s, %s, %s, %s, %s)\non conflict do nothing",
        "values (%s, %s, %s || clock_timestamp()::text, %s, %s)\non conflict do nothing",
        ("tests/processors/test_inbox_store.py",),
    ),
    Mutant(
        "applied-message-applied-again-on-receipt",
        "a message that was applied is not applied again when it arrives again",
        _CONSUMER,
        "        if received.handled_at is None:",
        "        if True:",
        ("tests/processors/test_inbox_store.py",),
    ),
)

FENCE: Final = (
    Mutant(
        "append-without-version-check",
        "two commands that expect the same version of a stream do not both write it",
        _STATEMENT,
        "where next.found or (s.x > 0 and here.found is null)",
        "where (s.x > 0 and here.found is null)",
        ("tests/journal/test_writer.py",),
    ),
    Mutant(
        "append-without-head-lock",
        "two processes that write one merchant's log take turns, so that positions have no gap",
        _STATEMENT,
        "where merchant_id = any($1::uuid[]) order by merchant_id for update",
        "where merchant_id = any($1::uuid[]) order by merchant_id",
        ("tests/journal/test_writer.py",),
    ),
    Mutant(
        "unknown-commit-answered-too-early",
        "a command whose commit is unknown is answered only after the old backend has ended",
        _GROUP_COMMIT,
        "await end_backend(connection, self._backend)",
        "pass",
        ("tests/journal/test_unknown_commits.py",),
    ),
    Mutant(
        "lost-connection-taken-for-a-rollback",
        "a statement without the server's own ERROR may have been committed",
        _GROUP_COMMIT,
        'return fault.sqlstate is not None and fault.diag.severity_nonlocalized == "ERROR"',
        "return True",
        ("tests/journal/test_unknown_commits.py",),
    ),
    Mutant(
        "commit-of-another-command",
        "after a lost connection, another command's event at the same version is not taken for the own one",
        _STATEMENT,
        " and e.version = c.v and e.command_id = c.command_id",
        " and e.version = c.v",
        ("tests/journal/test_unknown_commits.py",),
    ),
    Mutant(
        "stopped-writer-left-alone",
        "on Postgres 15 and 16, a process that stops in its commit does not hold a merchant's head without end",
        "src/ledger/journal/commit/locked_merchants.py",
        "            await self._end_stopped(pipeline)  # first: a stopped writer may be why the heads cannot be looked at\n",
        "",
        ("tests/journal/test_stopped_writers.py",),
    ),
    Mutant(
        "call-before-its-intent-is-committed",
        "a crash during a call leaves an intent that the recovery finds",
        f"{_PIPELINE}/execute.py",
        """\
    plan, announced = await _commit(uow, attempt, ATTEMPTS_AT_A_FACT if is_fact else ATTEMPTS)
    await _make(uow, announced, go_on)
    return plan
""",
        """\
    early = await attempt(None)
    if early.events:
        for call in _announced(uow, early):
            await make_call(uow, call, read_clocks())
    plan, announced = await _commit(uow, attempt, ATTEMPTS_AT_A_FACT if is_fact else ATTEMPTS)
    await _make(uow, announced, go_on)
    return plan
""",
        ("tests/operations/test_crash_points.py", "tests/operations/test_orders.py"),
    ),
    Mutant(
        "silence-taken-for-unsent",
        "a call without an answer may have charged the payer",
        "src/ledger/operations/orders/processor_call.py",
        "return _come_back(SILENT)",
        "return NotSent()",
        ("tests/operations/test_orders.py",),
    ),
    Mutant(
        "unreadable-answer-taken-for-unsent",
        "a call whose answer cannot be read may have charged the payer",
        "src/ledger/operations/orders/processor_call.py",
        "reason=type(failure.fault).__name__, **about)\n                return _come_back(UNREADABLE)",
        "reason=type(failure.fault).__name__, **about)\n                return NotSent()",
        ("tests/operations/test_orders.py",),
    ),
    Mutant(
        "call-after-its-deadline",
        "a process that was stopped does not make a call that the recovery may have settled",
        f"{_PIPELINE}/calls.py",
        "        if left_s <= 0:",
        "        if left_s <= -1e9:",
        ("tests/operations/test_stalls.py",),
    ),
    Mutant(
        "deadline-by-real-time-alone",
        "a machine whose clock was set back still ends the time for a call",
        f"{_PIPELINE}/calls.py",
        "return min(left_s, (deadline_at - self.at).total_seconds() - passed_s)",
        "return left_s",
        ("tests/operations/test_stalls.py",),
    ),
    Mutant(
        "not-found-without-a-fence",
        "a call that was not found has no effect when it arrives later",
        "src/ledger/operations/orders/processor_call.py",
        "fence = how.fence and is_final and can_fence",
        "fence = False",
        ("tests/operations/test_stalls.py",),
    ),
    Mutant(
        "fenced-authorisation-carried-out",
        "a fence refuses an authorisation",
        "src/ledger/processors/sandbox/charge_rows.py",
        "    if decline_code == _FENCED:\n        return None\n",
        "    if decline_code == _FENCED:\n        decline_code = None\n",
        ("tests/processors/test_fences.py",),
    ),
    Mutant(
        "call-given-up-without-a-fence",
        "a call that was sent again for a day counts as never arrived only after its key is fenced",
        _RECOVERY,
        "outcome = await self._look_up(call, fence=not repeats)",
        "outcome = await self._look_up(call, fence=False)",
        ("tests/operations/test_stalls.py",),
    ),
    Mutant(
        "call-sent-again-by-two-workers",
        "of several workers one sends a call again",
        f"{_DECIDE}/unanswered_calls.py",
        " or intent.deadline_at != command.after:",
        ":",
        ("tests/operations/test_repeated_calls.py",),
    ),
    Mutant(
        "settled-call-sent-again",
        "a call that has an outcome is not sent again",
        f"{_DECIDE}/unanswered_calls.py",
        "if intent is None or intent.idempotency_key != command.idempotency_key or intent.deadline_at != command.after:",
        "if intent is None:",
        ("tests/domain/test_repeated_calls.py",),
    ),
    Mutant(
        "authorisation-sent-again",
        "only captures, voids, refunds and payouts are sent again",
        f"{_DECIDE}/unanswered_calls.py",
        "if intent.action not in _REPEATED or intent.payment_id is None:",
        "if intent.payment_id is None:",
        ("tests/domain/test_repeated_calls.py",),
    ),
    Mutant(
        "document-sent-again-without-look-up",
        "a document whose outcome is unknown is looked up before it is sent again",
        _STAMPING,
        "if order.invoices is not None and order.invoices.open_intent is not None:\n        return []",
        "if False:\n        return []",
        (f"{_CORE_TESTS}::test_a_document_without_an_answer_waits_for_its_look_up", _WORKER_TESTS),
    ),
)

SECRETS: Final = (
    Mutant(
        "personal-data-unsealed",
        "personal data is stored only sealed",
        _CODEC,
        "clear, personal = split(event, paths)",
        "clear, personal = event, {}",
        ("tests/journal/test_sealing.py",),
    ),
    Mutant(
        "cardholder-unsealed",
        "the name on the card is sealed, although it lies inside the payment method",
        _ORDER_EVENTS,
        'PaymentStarted: ("method.card.cardholder_name", ',
        "PaymentStarted: (",
        ("tests/journal/test_sealing.py", "tests/operations/test_sealing.py"),
    ),
    Mutant(
        "sealed-data-of-another-stream",
        "sealed data opens only in the stream for which it was written",
        _SEALING,
        "_LABEL + owner + stream_id",
        "_LABEL + owner",
        ("tests/journal/test_sealing.py",),
    ),
    Mutant(
        "erasure-keeps-the-data-key",
        "the data key of an erased customer is destroyed in the commit of the erasure",
        "src/ledger/journal/journal.py",
        "if customer.erased:",
        "if False:",
        ("tests/operations/test_erasure.py",),
    ),
    Mutant(
        "vault-open-to-the-application",
        "the application's role has no right on the table of card numbers",
        "src/ledger/postgres/prepare.py",
        """\
        connection.execute(sql.SQL("revoke all on {} from {}").format(table, sql.Identifier(application)))
""",
        """\
        pass
""",
        ("tests/postgres/test_prepare.py",),
    ),
    Mutant(
        "application-changes-events",
        "the database role of the service cannot change or delete events",
        _PREPARE,
        '_INSERT_ONLY: Final = ("event", "claim", "schema_migration", "master_key_fingerprint")',
        '_INSERT_ONLY: Final = ("claim", "schema_migration", "master_key_fingerprint")',
        ("tests/postgres/test_prepare.py",),
    ),
    Mutant(
        "fingerprint-with-the-cvc",
        "a CVC is kept in no form",
        f"{_HTTP}/idempotency_key.py",
        '_SECRETS: Final = frozenset({"cvc", "cvv"})',
        "_SECRETS: Final = frozenset()",
        ("tests/api/http/test_idempotency_key.py",),
    ),
    Mutant(
        "card-number-in-a-text",
        "no text that is stored holds a card number",
        _STORED_TEXT,
        "    if contains_pan(text):\n        raise card_number_in(field)",
        "",
        ("tests/api/fields/test_stored_text.py",),
    ),
    Mutant(
        "card-number-digit-by-digit",
        "a card number that is written digit by digit is found",
        "src/ledger/processors/pan_detection.py",
        "any(_contain_pan([digits], lambda *_: is_in_issued_range) for digits in _digit_by_digit(text))",
        "False",
        ("tests/api/fields/test_stored_text.py",),
    ),
    Mutant(
        "id-taken-for-a-card-number",
        "a shop's ids are not refused as card numbers",
        "src/ledger/processors/pan_detection.py",
        "return is_issued if _is_in_prose(text, first, last) else is_in_issued_range",
        "return is_issued",
        ("tests/api/fields/test_stored_text.py",),
    ),
    Mutant(
        "id-of-several-groups-taken-for-a-card-number",
        "a part of an order number with dashes is no card number",
        "src/ledger/processors/pan_detection.py",
        "return is_in_issued_range if end - begin == len(groups) else _no_range",
        "return is_issued",
        ("tests/api/fields/test_stored_text.py",),
    ),
    Mutant(
        "card-number-that-touches-letters",
        "a payer's card number is found beside letters and as a whole text",
        "src/ledger/processors/pan_detection.py",
        "return is_issued if _is_in_prose(text, first, last) else is_in_issued_range",
        "return is_issued if _is_in_prose(text, first, last) else _no_range",
        ("tests/api/fields/test_stored_text.py",),
    ),
    Mutant(
        "security-code-in-a-text",
        "no text that is stored holds a card's security code",
        _STORED_TEXT,
        "    if contains_cvc(text):",
        "    if False:",
        ("tests/api/fields/test_stored_text.py",),
    ),
    Mutant(
        "card-number-in-an-order",
        "the texts of a new order are searched for card numbers",
        "src/api/orders/create.py",
        "if not is_harmless(body, sent_pan(sent.payment_method)):",
        "if False:",
        ("tests/api/fields/test_stored_text.py",),
    ),
    Mutant(
        "key-after-its-end",
        "a key that has expired is refused",
        f"{_HTTP}/auth.py",
        "if principal.expires_at is not None and principal.expires_at <= self._now():",
        "if False:",
        ("tests/api/http/test_auth.py",),
    ),
    Mutant(
        "revoked-key",
        "a key that was revoked is refused",
        f"{_HTTP}/auth.py",
        "principal = None if found is None or found.revoked_at is not None else self._principal(found)",
        "principal = None if found is None else self._principal(found)",
        ("tests/api/http/test_auth.py",),
    ),
    Mutant(
        "secret-in-a-repeated-answer",
        "a repeated creation shows no secret, least of all one that is not the key's",
        "src/api/merchant/documents.py",
        "secret = None if result.repeated else key.secret",
        "secret = key.secret",
        ("tests/api/merchant/test_api_keys.py",),
    ),
    Mutant(
        "message-signature-not-checked",
        "a message that its processor did not sign is refused",
        _MESSAGES,
        "if not is_valid or not _is_now(signed.timestamp, now):",
        "if not _is_now(signed.timestamp, now):",
        ("tests/processors/test_messages.py",),
    ),
    Mutant(
        "message-replayed-later",
        "a signed message cannot be replayed after five minutes",
        _MESSAGES,
        "if not is_valid or not _is_now(signed.timestamp, now):",
        "if not is_valid:",
        ("tests/processors/test_messages.py",),
    ),
    Mutant(
        "embedded-with-the-whole-environment",
        "no process of the embedded server has the service's secrets in its environment",
        f"{_EMBEDDED}/account.py",
        ' if name in _KEPT or name.startswith("LC_")}',
        "}",
        (f"{_ACCESS_TESTS}::test_no_secret_is_in_the_environment_of_any_process_of_the_server",),
    ),
    Mutant(
        "last-key-that-makes-all-others",
        "a merchant's request leaves a key that can make every key",
        "src/ledger/domain/merchants/decide.py",
        "_has_manager(before, before, until) and not _has_manager(after, before, until)",
        "False",
        ("tests/domain/test_merchants.py",),
    ),
    Mutant(
        "rate-of-a-merchant",
        "many keys give a merchant no more requests than two",
        "src/api/http/rate_limits.py",
        "if merchant_id is not None and self._factor:",
        "if False:",
        ("tests/api/http/test_rate_limits.py",),
    ),
    Mutant(
        "rounds-of-a-key",
        "a key that takes minutes to derive is refused",
        "src/ledger/invoicing/locked_keys.py",
        "if rounds > ROUNDS_MAX:",
        "if rounds > 2 * ROUNDS_MAX:",  # without any limit, the test would take hours
        ("tests/invoicing/test_certificates.py::test_a_key_that_would_take_hours_to_open_is_refused_unopened",),
    ),
    Mutant(
        "order-that-no-invoice-can-state",
        "an order with fiscal data is charged only if its invoice can be stamped",
        "src/ledger/operations/orders/create.py",
        "if invoicing is not None and request.customers_fiscal is not CustomersFiscal.IF_THERE:",
        "if invoicing is None:",
        ("tests/api/invoices/test_stamp.py::test_a_foreign_currency_needs_an_exchange_rate",),
    ),
    Mutant(
        "document-stamped-against-sats-rules",
        "the sandbox's provider stamps nothing that SAT refuses",
        "src/ledger/invoicing/providers/sandbox.py",
        "check_structure(checked.root) or check_rules(checked.root) or checked",
        "check_structure(checked.root) or checked",
        ("tests/invoicing/test_provider_rules.py::test_the_provider_stamps_nothing_that_breaks_a_rule",),
    ),
    Mutant(
        "document-mailed-by-two-workers",
        "a stamped document is mailed once, also if two workers run its job",
        "src/ledger/domain/invoices/decide/mail.py",
        "if mail.deadline_at is not None and command.real_at < mail.deadline_at:",
        "if mail.deadline_at is None and command.real_at is None:",
        ("tests/domain/invoices/test_document_mail.py::test_a_stamped_document_is_mailed_once",),
    ),
    Mutant(
        "second-head-of-a-logo",
        "a PNG with two sizes is refused before it is opened",
        "src/ledger/invoicing/logos.py",
        'kinds.count(b"IHDR") != 1 or ',
        "",
        ("tests/invoicing/test_logos.py::test_a_second_head_is_refused",),
    ),
    Mutant(
        "clock-moved-without-a-bound",
        "a move of a clock ends after so many due things",
        f"{_CLOCK}/advance.py",
        "return min(TASKS_PER_JOB, DUE_MAX - self.due)",
        "return TASKS_PER_JOB",
        (f"{_MOVE_TESTS}::test_a_move_does_no_more_than_its_bound_and_the_next_one_does_the_rest",),
    ),
    Mutant(
        "clock-moved-without-a-client",
        "a move of a clock ends with its client",
        f"{_CLOCK}/advance.py",
        " or not self._is_awaited()",
        "",
        (f"{_MOVE_TESTS}::test_a_move_ends_with_its_client_between_two_due_things",),
    ),
    Mutant(
        "clock-moved-by-a-former-holder",
        "a move of a clock whose lease expired moves it no further",
        f"{_CLOCK}/lock.py",
        "\n where merchant_id = %s and holder = %s\n",
        "\n where merchant_id = %s and %s::uuid is not null\n",
        (f"{_MOVE_TESTS}::test_a_move_that_has_lost_its_lease_stops",),
    ),
    Mutant(
        "lease-of-a-clock-ended-by-another",
        "a former holder of the lease on a clock does not end the lease of the next one",
        f"{_CLOCK}/lock.py",
        "set moving_until = null, holder = null where merchant_id = any(%s) and holder = %s",
        "set moving_until = null, holder = null where merchant_id = any(%s) and %s::uuid is not null",
        (f"{_MOVE_TESTS}::test_only_its_holder_renews_or_ends_a_lease",),
    ),
    Mutant(
        "long-work-without-a-pause",
        "an import leaves turns of the event loop to other requests",
        "src/ledger/slices.py",
        "        await asyncio.sleep(spent_s)  # no other work has a slice meanwhile\n",
        "",
        ("tests/test_slices.py::test_the_loop_runs_between_two_slices",),
    ),
    Mutant(
        "large-commit-in-front-of-others",
        "orders of other merchants do not wait behind a large import",
        "src/ledger/journal/journal.py",
        "if len(changes) < STREAMS_MIN:",
        "if len(changes) < 1_000_000:",
        ("tests/operations/test_imports.py::test_orders_of_other_merchants_do_not_wait_behind_a_large_import",),
    ),
    Mutant(
        "stated-order-invoiced-once-more",
        "an order of a global invoice gets no invoice of its own",
        _STAMPING,
        "    require_not_in_global(order)\n    current, policy",
        "    current, policy",
        (f"{_GLOBAL}::test_a_stated_order_is_not_invoiced_once_more",),
    ),
    Mutant(
        "order-in-two-global-invoices",
        "no order is stated by two global invoices",
        "src/ledger/domain/invoices/global_invoices/contents.py",
        "or order.is_fiscal or order.global_invoice_id is not None:",
        "or order.is_fiscal:",
        (f"{_GLOBAL}::test_an_order_is_stated_that_was_paid_in_the_period_and_has_no_invoice",),
    ),
    Mutant(
        "refused-global-invoice-keeps-its-orders",
        "no order is locked by a document that does not exist",
        "src/ledger/operations/global_invoices/provider_call.py",
        "if any(isinstance(event, GlobalInvoiceRefused) for event in events):",
        "if False:",
        ("tests/api/invoices/test_global_invoice.py::test_a_refused_global_invoice_frees_its_orders",),
    ),
    Mutant(
        "self-invoice-link-without-its-signature",
        "nobody opens the page of an order whose link the service did not sign",
        "src/ledger/invoicing/self_invoice_links.py",
        "if not hmac.compare_digest(signature, self._signature(signed)):",
        "if len(signature) != _SIGNATURE:",
        (f"{_SELF_INVOICE}::test_a_link_is_of_one_order_and_ends_with_the_month_after_the_payment",),
    ),
    Mutant(
        "invoice-shown-to-any-visitor",
        "a found receipt does not show the person to whom its invoice was issued",
        "src/api/pages/self_invoice.py",
        "if not rfc or not hmac.compare_digest(rfc.encode(), invoice.terms.receiver.tax_id.encode()):",
        "if not rfc:",
        (f"{_SELF_INVOICE}::test_a_payer_requests_an_invoice_once",),
    ),
    Mutant(
        "self-invoice-without-its-check",
        "a second receiver does not replace that of an invoice which is being stamped",
        "src/ledger/operations/orders/invoices/stamp.py",
        "        if check is not None:\n",
        "        if False:\n",
        (f"{_SELF_INVOICE}::test_another_receiver_comes_too_late_while_the_invoice_is_being_stamped",),
    ),
    Mutant(
        "a-payer-sent-to-an-address-that-runs",
        "a payer's browser neither runs nor misreads the merchant's returnUrl",
        "src/api/fields/values.py",
        "    if not _PLAIN_URL.fullmatch(text):\n        raise wrong\n",
        "",
        (f"{_PAYER_PAGES}::test_an_address_that_a_browser_must_not_follow_is_refused",),
    ),
    Mutant(
        "a-payer-sent-out-of-https",
        "a payer returns to an address with https, but for this machine",
        "src/api/fields/values.py",
        '(url.scheme != "https" and not _is_loopback(host))',
        "False",
        (f"{_PAYER_PAGES}::test_an_address_that_a_browser_must_not_follow_is_refused",),
    ),
    Mutant(
        "an-erased-customers-first-card",
        "an erasure that has found no cards is decided again if one is saved meanwhile",
        "src/ledger/operations/erasure/erase_customer.py",
        "return Plan(changes=[erased, uow.absence(stream_of(customer_id))])",
        "return Plan(changes=[erased])",
        (f"{_VERIFICATIONS}::test_a_customer_without_cards_who_is_erased_while_a_first_one_is_verified",),
    ),
    Mutant(
        "the-number-of-a-card-that-is-not-saved",
        "the vault destroys the number of a card whose issuer has not confirmed it",
        "src/ledger/operations/payment_methods/verify.py",
        "if methods is not None and methods.had(payment_method_id):",
        "if methods is None:",
        ("tests/api/payment_methods/test_create.py",),
    ),
    Mutant(
        "an-id-that-is-used-up",
        "a number that is being destroyed is not the number of a card that is saved next",
        "src/ledger/domain/payment_methods/state.py",
        "return latest is not None and latest.ended not in {None, VerificationEnd.VERIFIED}",
        "return False",
        ("tests/domain/test_card_verification.py",),
    ),
    Mutant(
        "a-late-answer-about-a-card",
        "an answer to a call that has its outcome, or whose verification has ended, saves no card",
        "src/ledger/domain/payment_methods/verification.py",
        "call is None or call.idempotency_key != command.idempotency_key",
        "call is None",
        ("tests/domain/test_card_verification.py",),
    ),
    Mutant(
        "testing-of-stolen-cards",
        "a customer has at most twenty failed verifications a day",
        "src/ledger/domain/payment_methods/verification.py",
        "if sum(each.counts_as_failure for each in recent) >= FAILED_MAX:",
        "if False:",
        ("tests/domain/test_card_verification.py",),
    ),
    Mutant(
        "unsent-verifications-without-end",
        "a processor that is away lets no client make a customer's stream long",
        "src/ledger/domain/payment_methods/verification.py",
        "if sum(each.ended is VerificationEnd.NOT_SENT for each in recent) >= UNSENT_MAX:",
        "if False:",
        ("tests/domain/test_card_verification.py",),
    ),
    Mutant(
        "card-number-beside-a-saved-card",
        "the texts that are stored of a card are searched for card numbers",
        "src/api/payment_methods/create.py",
        "if not is_harmless(body, sent_pan(method)):",
        "if False:",
        ("tests/api/payment_methods/test_create.py::test_a_wrong_request_names_its_fields",),
    ),
    Mutant(
        "receiver-after-an-erasure",
        "an order shows no receiver of its invoice after the erasure of its payer",
        "src/ledger/domain/orders/state.py",
        "or invoice.is_cancelled or not invoice.has_receiver:",
        "or invoice.is_cancelled:",
        ("tests/domain/invoices/test_evolve_invoices.py",),
    ),
    Mutant(
        "rest-after-the-last-invoice",
        "no more waits for the next invoice of a subscription than one invoice can charge",
        "src/ledger/domain/subscriptions/decide/changes.py",
        "if owed > max(before, AMOUNT_MAX):",
        "if False:",
        ("tests/domain/test_subscription_requests.py",),
    ),
    Mutant(
        "total-for-amount",
        "a capture with `total` captures no other amount",
        "src/api/decoding/choosing_names.py",
        "releaseamount amounttorelease total totalamount",
        "releaseamount amounttorelease totalamount",
        ("tests/api/http/test_unknown_names.py::test_a_name_that_chooses_is_refused_with_the_one_to_send",),
    ),
)

MUTANTS: Final = (*MONEY, *IDEMPOTENCY, *FENCE, *SECRETS)
