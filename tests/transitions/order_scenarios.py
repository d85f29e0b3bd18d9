"""Scenarios for every move of an order (the contract's table 2.2 and section 8.3), and for the moves of late money."""

from __future__ import annotations

from tests.transitions.scenario import CHR, DDR, Scenario, scenario
from tests.transitions.steps import (
    CHALLENGE,
    DECLINED,
    DEVICE,
    DEVICE_FIRST,
    DOWN,
    GOOD,
    HALF,
    MANUAL,
    NO_CAPTURE,
    NO_REFUND,
    NO_VOID,
    REDIRECT,
    REFUND_CAPTURED,
    SILENT,
    SLOW_REFUND,
    SPEI,
    Tender,
    add_payment,
    advance_clock,
    cancel,
    cancel_payment,
    capture,
    charge,
    create,
    create_again,
    deposit,
    device_data,
    dispute,
    giving_up,
    pending,
    recovery,
    refund,
    refund_comes_back,
    split,
    validate,
    void_reported,
)

NO_CAPTURE_DELAY = {"capture_delay_seconds": 0}
"""The setting of a merchant whose payments are captured at the moment of the payer's authentication."""

PROCESSING = [
    scenario("made, cancelled, and nothing was ever paid", pending(), cancel(), order="- PENDING CANCELLED"),
    scenario("paid by card at once", create(GOOD), order="- PROCESSING COMPLETED"),
    scenario("charged later", pending(), charge(GOOD), order="- PENDING PROCESSING COMPLETED"),
    scenario("half is granted and taken", create(HALF), order="PROCESSING PARTIALLY_PAID"),
    scenario("authorised, and captured by the merchant", create(GOOD, **MANUAL), capture(),
         order="PROCESSING AUTHORIZED COMPLETED"),
    scenario("authorised, and captured for less", create(GOOD, **MANUAL), capture(4000),
         order="AUTHORIZED PARTIALLY_PAID"),
    scenario("half authorised, and captured", create(HALF, **MANUAL), capture(),
         order="PROCESSING PARTIALLY_AUTHORIZED PARTIALLY_PAID"),
    scenario("declined, charged again, declined, sent again", create(DECLINED), charge(DECLINED), create_again(GOOD),
         order="PROCESSING FAILED PROCESSING FAILED PROCESSING COMPLETED"),
    scenario("a part is declined", split(), add_payment(DECLINED, 4000), order="PENDING PROCESSING PENDING"),
    scenario("a part, another, the rest", split(), add_payment(GOOD, 3000), add_payment(GOOD, 3000), add_payment(GOOD),
         order="PENDING PROCESSING PARTIALLY_PAID PARTIALLY_PAID COMPLETED"),
    scenario("cancelled before the outcome is known, and the money had been taken", create(SILENT), cancel(),
         recovery(),
         order="PROCESSING CANCELLATION_REQUESTED COMPLETED"),
    scenario("recovered", create(SILENT), recovery(), order="- PROCESSING COMPLETED"),
]  # fmt: skip


def _session_scenarios() -> list[Scenario]:
    """Returns the scenarios of 3-D Secure and redirects."""
    scenarios = []
    done: tuple[tuple[str, Tender, object], ...] = (
        (DDR, DEVICE, device_data()),
        (CHR, CHALLENGE, validate()),
        ("ACTION_REQUIRED", REDIRECT, validate()),
    )
    for status, tender, goes_on in done:
        scenarios += [
            scenario(f"{status}, done", create(tender), goes_on, order=f"PROCESSING {status} AUTHORIZED"),
            scenario(
                f"{status}, captured now", create(tender), goes_on, order=f"{status} COMPLETED", **NO_CAPTURE_DELAY
            ),
            scenario(
                f"{status}, a part captured now",
                split(),
                add_payment(tender, 4000),
                goes_on,
                order=f"{status} PARTIALLY_PAID",
                **NO_CAPTURE_DELAY,
            ),
            scenario(
                f"{status}, the session expires", create(tender), advance_clock("PT16M"), order=f"{status} FAILED"
            ),
            scenario(
                f"{status}, the session of a part expires",
                split(),
                add_payment(tender, 4000),
                advance_clock("PT16M"),
                order=f"{status} PENDING",
            ),
            scenario(f"{status}, cancelled", create(tender), cancel(), order=f"{status} CANCELLED"),
            scenario(
                f"{status}, a part cancelled",
                split(),
                add_payment(tender, 4000),
                cancel_payment(),
                order=f"{status} PENDING",
            ),
            scenario(
                f"{status}, a further part",
                split(),
                add_payment(tender, 4000),
                add_payment(GOOD, 4000),
                order=f"PENDING PROCESSING {status} PROCESSING PARTIALLY_PAID",
            ),
        ]
    return scenarios  # fmt: skip


SESSIONS = [
    scenario("device data lead to a challenge", create(DEVICE_FIRST), device_data(), order=f"PROCESSING {DDR} {CHR}"),
    scenario("the challenge is refused", create(CHALLENGE), validate("fail"), order=f"PROCESSING {CHR} FAILED"),
    scenario(
        "the challenge of a part is refused",
        split(),
        add_payment(CHALLENGE, 4000),
        validate("fail"),
        order=f"{CHR} PENDING",
    ),
    *_session_scenarios(),
]

REFERENCES = [
    scenario("a transfer covers", create(SPEI), deposit(10_000), order="PROCESSING REFERENCE_GENERATED COMPLETED"),
    scenario("transfers add up", create(SPEI), deposit(3000), deposit(3000), deposit(4000),
         order="REFERENCE_GENERATED PARTIALLY_PAID PARTIALLY_PAID COMPLETED"),
    scenario("the reference expires", pending(), charge(SPEI), advance_clock("PT73H"),
         order="PROCESSING REFERENCE_GENERATED PENDING"),
    scenario("the reference of an order created with it expires", create(SPEI), advance_clock("PT73H"),
         order="REFERENCE_GENERATED FAILED"),
    scenario("a part cancelled", split(), add_payment(SPEI), cancel_payment(), order="REFERENCE_GENERATED PENDING"),
    scenario("a further part", split(), add_payment(SPEI, 4000), add_payment(GOOD, 4000),
         order="REFERENCE_GENERATED PROCESSING PARTIALLY_PAID"),
    scenario("cancelled", create(SPEI), cancel(), order="REFERENCE_GENERATED CANCELLED"),
    scenario("paid in another way", pending(), charge(SPEI), charge(GOOD),
         order="REFERENCE_GENERATED PROCESSING COMPLETED"),
    scenario("a part came late", split(), add_payment(SPEI), advance_clock("PT73H"), deposit(4000),
         order="REFERENCE_GENERATED PENDING PARTIALLY_PAID"),
    scenario("all came late", split(), add_payment(SPEI), advance_clock("PT73H"), deposit(10_000),
         order="REFERENCE_GENERATED PENDING COMPLETED"),
    scenario("it had failed, and all came", create(SPEI), advance_clock("PT73H"), deposit(10_000),
         order="FAILED COMPLETED"),
    scenario("it had failed, and a part came", create(SPEI), advance_clock("PT73H"), deposit(4000),
         order="FAILED PARTIALLY_PAID"),
    scenario("it was cancelled, and all came", create(SPEI), cancel(), deposit(10_000), order="CANCELLED COMPLETED"),
    scenario("it was cancelled, and a part came", create(SPEI), cancel(), deposit(4000),
         order="CANCELLED PARTIALLY_PAID"),
    scenario("half a card takes the place of a transfer that comes after all", pending(**MANUAL), charge(SPEI),
         charge(HALF),
         deposit(10_000, n=2), order="REFERENCE_GENERATED PROCESSING PARTIALLY_AUTHORIZED COMPLETED"),
]  # fmt: skip


def _authorization_scenarios() -> list[Scenario]:
    """Returns the scenarios of full and partial authorisations."""
    scenarios = []
    for status, tender in (("AUTHORIZED", GOOD), ("PARTIALLY_AUTHORIZED", HALF)):
        scenarios += [
            scenario(
                f"{status}, voided",
                create(tender, **MANUAL),
                cancel(),
                order=f"PROCESSING {status} CANCELLATION_REQUESTED CANCELLED",
            ),
            scenario(f"{status}, lapses", create(tender, **MANUAL), advance_clock("P8D"), order=f"{status} FAILED"),
            scenario(
                f"{status}, a part lapses",
                split(**MANUAL),
                add_payment(tender, 4000),
                advance_clock("P8D"),
                order=f"{status} PENDING",
            ),
            scenario(
                f"{status}, a further part",
                split(**MANUAL),
                add_payment(tender, 4000),
                add_payment(GOOD, 4000),
                order=f"PENDING PROCESSING {status} PROCESSING AUTHORIZED",
            ),
            scenario(
                f"{status}, a part is voided",
                split(**MANUAL),
                add_payment(tender, 4000),
                cancel_payment(),
                order=f"{status} CANCELLATION_REQUESTED PENDING",
            ),
            scenario(
                f"{status}, the void of a part is sent later",
                split(**MANUAL),
                add_payment(tender, 4000),
                DOWN,
                cancel_payment(),
                giving_up(),
                advance_clock(),
                order=f"{status} CANCELLATION_REQUESTED {status} CANCELLATION_REQUESTED PENDING",
            ),
        ]
    return scenarios  # fmt: skip


GRANTS = [
    scenario(
        "the void is refused",
        create(NO_VOID, **MANUAL),
        cancel(),
        order="AUTHORIZED CANCELLATION_REQUESTED AUTHORIZED",
    ),
    scenario("a capture is refused", create(NO_CAPTURE), capture(), order="AUTHORIZED FAILED"),
    scenario("an automatic capture is refused", create(NO_CAPTURE), advance_clock(), order="AUTHORIZED FAILED"),
    scenario(
        "the capture of a part is refused",
        split(),
        add_payment(NO_CAPTURE, 4000),
        capture(),
        order="AUTHORIZED PENDING",
    ),
    scenario(
        "the automatic capture of a part is refused",
        split(),
        add_payment(NO_CAPTURE, 4000),
        advance_clock(),
        order="AUTHORIZED PENDING",
    ),
    *_authorization_scenarios(),
]

PAID = [
    scenario("cancelled with its money given back", split(), add_payment(GOOD, 4000), cancel(**REFUND_CAPTURED),
         order="PARTIALLY_PAID CANCELLATION_REQUESTED REFUNDED"),
    scenario("cancelled, and the money cannot be given back", split(), add_payment(NO_REFUND, 4000),
         cancel(**REFUND_CAPTURED),
         order="PARTIALLY_PAID CANCELLATION_REQUESTED PARTIALLY_PAID"),
    scenario("a part is refunded, and the order closed", split(), add_payment(GOOD, 4000), refund(4000), cancel(),
         order="PARTIALLY_PAID REFUND_PROCESSING PARTIALLY_PAID REFUNDED"),
    scenario("refunded in parts", create(GOOD), refund(4000), refund(6000),
         order="COMPLETED REFUND_PROCESSING PARTIALLY_REFUNDED REFUND_PROCESSING REFUNDED"),
    scenario("refunded at once", create(SLOW_REFUND), refund(10_000), advance_clock("PT5S"),
         order="COMPLETED REFUND_PROCESSING REFUNDED"),
    scenario("a refund is refused", create(NO_REFUND), refund(4000), order="COMPLETED REFUND_PROCESSING COMPLETED"),
    scenario("a split order is refunded in part", split(), add_payment(GOOD), refund(4000),
         order="COMPLETED REFUND_PROCESSING PARTIALLY_PAID"),
    scenario("disputes are lost, bit by bit", create(GOOD), advance_clock(), dispute("LOST", 2000),
         dispute("LOST", 3000), dispute("LOST"),
         order="COMPLETED PARTIALLY_REFUNDED PARTIALLY_REFUNDED REFUNDED"),
    scenario("a dispute about all is lost", create(GOOD), advance_clock(), dispute("LOST"), order="COMPLETED REFUNDED"),
    scenario("a dispute about a part of a split order is lost", split(), add_payment(GOOD), advance_clock(),
         dispute("LOST", 2000),
         order="COMPLETED PARTIALLY_PAID"),
    scenario("a dispute about a transfer of less is lost in part", create(SPEI), deposit(6000), advance_clock(),
         dispute("LOST", 2000),
         order="PARTIALLY_PAID PARTIALLY_REFUNDED"),
    scenario("a dispute about a transfer of less is lost", create(SPEI), deposit(6000), advance_clock(),
         dispute("LOST"),
         order="PARTIALLY_PAID REFUNDED"),
]  # fmt: skip

LATE = [
    scenario("a transfer after the refund", create(SPEI), deposit(10_000), refund(10_000), advance_clock("PT5S"),
         deposit(500),
         order="REFUND_PROCESSING REFUNDED PARTIALLY_REFUNDED"),
    scenario("a transfer to a split order that was closed", split(), add_payment(SPEI, 4000), deposit(4000),
         refund(4000), advance_clock("PT5S"),
         cancel(), deposit(500), order="PARTIALLY_PAID REFUNDED PARTIALLY_PAID"),
    scenario("a transfer of all to a split order that was closed", split(), add_payment(SPEI, 4000), deposit(4000),
         refund(4000),
         advance_clock("PT5S"), cancel(), deposit(10_000), order="PARTIALLY_PAID REFUNDED COMPLETED"),
    scenario("a refund comes back", create(GOOD), refund(4000), refund_comes_back(),
         order="COMPLETED REFUND_PROCESSING PARTIALLY_REFUNDED COMPLETED"),
    scenario("a refund of all comes back", create(GOOD), refund(10_000), refund_comes_back(),
         order="COMPLETED REFUND_PROCESSING REFUNDED COMPLETED"),
    scenario("a refund of less comes back", create(SPEI), deposit(6000), refund(4000), advance_clock("PT5S"),
         refund_comes_back(),
         order="REFUND_PROCESSING PARTIALLY_REFUNDED PARTIALLY_PAID"),
    scenario("one of two refunds of a cancellation is refused", pending(**MANUAL), charge(SPEI), deposit(4000),
         charge(NO_REFUND),
         capture(3000), cancel(**REFUND_CAPTURED), advance_clock("PT5S"),
         order="CANCELLATION_REQUESTED PARTIALLY_REFUNDED"),
    scenario("a session's end is reported after its approval", create(GOOD, **MANUAL), void_reported(),
         order="AUTHORIZED CANCELLATION_REQUESTED FAILED", payment="PENDING_CANCELLATION CANCELLED"),
]  # fmt: skip

ORDER_SCENARIOS = [*PROCESSING, *SESSIONS, *REFERENCES, *GRANTS, *PAID, *LATE]
