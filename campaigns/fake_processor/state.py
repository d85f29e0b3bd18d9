"""The fake processor's state: its charges, and what each call did to them.

A key counts once, however often and however late its call takes effect.
"""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from msgspec.structs import replace

from campaigns.fake_processor.modes import Call, CallAnswer, Kind, Line
from campaigns.fake_processor.record import Record
from ledger.domain.orders.processor_outcomes import (
    Approved,
    Captured,
    CaptureRefused,
    Declined,
    Refunded,
    RefundRefused,
    Voided,
    VoidRefused,
)
from ledger.processors.sandbox.authentications import StoredAnswer

DECLINED = "0002"


class Charge:
    """A granted authorisation."""

    def __init__(self, authorized: Decimal, captured: Decimal) -> None:
        self.authorized = authorized
        self.captured = captured
        self.refunded = Decimal(0)
        self.voided = False


class ProcessorState:
    """The charges, and the answers of the calls that took effect."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._charges: dict[tuple[UUID, str], Charge] = {}
        self._answers: dict[tuple[Kind, UUID, str], CallAnswer] = {}
        self._fenced: set[tuple[Kind, UUID, str]] = set()

    def fence(self, kind: Kind, merchant_id: UUID, key: str) -> None:
        """Refuses this key from now on, unless it took effect."""
        if (kind, merchant_id, key) not in self._answers:
            self._fenced.add((kind, merchant_id, key))

    def answer_to(self, kind: Kind, merchant_id: UUID, key: str) -> CallAnswer | None:
        """Returns the answer of a call that took effect."""
        return self._answers.get((kind, merchant_id, key))

    def answer_to_another(self, kind: Kind, key: str) -> CallAnswer | None:
        """Returns the answer of a call of this kind with another key."""
        return next((answer for (its, _, other), answer in self._answers.items() if its == kind and other != key), None)

    def apply(self, call: Call) -> None:
        """Carries out a call, unless its key was used before or is fenced."""
        key = (call.kind, call.merchant_id, call.key)
        if key not in self._answers and key not in self._fenced:
            self._answers[key], line = self._apply(call)
            self._record.write(line)

    def _apply(self, call: Call) -> tuple[CallAnswer, Line]:
        def line(**moved: Decimal) -> Line:
            done = Line(kind=call.kind, merchant_id=call.merchant_id, key=call.key, applied=True)
            return replace(done, **moved)

        if call.kind == "AUTHORIZE":
            return self._authorize(call, line())
        charge = self._charges.get((call.merchant_id, call.about))
        amount = call.amount
        match call.kind:
            case "CAPTURE":
                if charge is None or charge.voided or charge.captured + amount > charge.authorized:
                    return CallAnswer(key=call.key, capture=CaptureRefused(code="REFUSED")), line()
                charge.captured += amount
                return CallAnswer(
                    key=call.key, capture=Captured(amount=amount, processor_reference=f"c_{call.key}")
                ), line(captured=amount)
            case "VOID":
                if charge is None or charge.captured:
                    return CallAnswer(key=call.key, void=VoidRefused(code="REFUSED")), line()
                charge.voided = True
                return CallAnswer(key=call.key, void=Voided(processor_reference=f"v_{call.key}")), line()
            case _:
                if charge is None or charge.refunded + amount > charge.captured:
                    return CallAnswer(key=call.key, refund=RefundRefused(code="REFUSED")), line()
                charge.refunded += amount
                return CallAnswer(
                    key=call.key, refund=Refunded(amount=amount, processor_reference=f"r_{call.key}")
                ), line(refunded=amount)

    def _authorize(self, call: Call, line: Line) -> tuple[CallAnswer, Line]:
        if call.last4 == DECLINED:
            return CallAnswer(key=call.key, authorization=StoredAnswer(declined=Declined(code="GENERIC_DECLINE"))), line
        captured = call.amount if call.capture else Decimal(0)
        reference = f"fake_{call.key}"
        self._charges[call.merchant_id, reference] = Charge(call.amount, captured)
        approved = Approved(authorized=call.amount, captured=captured, processor_reference=reference)
        line = Line(
            kind=call.kind,
            merchant_id=call.merchant_id,
            key=call.key,
            applied=True,
            authorized=call.amount,
            captured=captured,
        )
        return CallAnswer(key=call.key, authorization=StoredAnswer(approved=approved)), line
