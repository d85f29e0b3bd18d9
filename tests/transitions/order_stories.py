"""Every move of an order (the contract's table 2.2 and section 8.3), told over HTTP, and those that only late money takes."""

from __future__ import annotations

from tests.transitions.steps import (
    CHALLENGE,
    DECLINED,
    DEVICE,
    DEVICE_FIRST,
    DOWN,
    GIVING_BACK,
    GOOD,
    HALF,
    MANUAL,
    NO_CAPTURE,
    NO_REFUND,
    NO_VOID,
    REDIRECT,
    SILENT,
    SLOW_REFUND,
    SPEI,
    Tender,
    again,
    cancel,
    cancel_part,
    capture,
    charge,
    create,
    deposit,
    device_data,
    dispute,
    later,
    part,
    pending,
    recovery,
    refund,
    split,
    validate,
)
from tests.transitions.told import CHR, DDR, Story, told

AT_ONCE = {"capture_delay_seconds": 0}
"""The setting of a merchant who captures in the same moment in which the payer was authenticated."""

PROCESSING = [
    told("made, cancelled, and nothing was ever paid", pending(), cancel(), order="- PENDING CANCELLED"),
    told("paid by card at once", create(GOOD), order="- PROCESSING COMPLETED"),
    told("charged later", pending(), charge(GOOD), order="- PENDING PROCESSING COMPLETED"),
    told("half is granted and taken", create(HALF), order="PROCESSING PARTIALLY_PAID"),
    told("authorised, and captured by hand", create(GOOD, **MANUAL), capture(), order="PROCESSING AUTHORIZED COMPLETED"),
    told("authorised, and captured for less", create(GOOD, **MANUAL), capture(4000), order="AUTHORIZED PARTIALLY_PAID"),
    told("half authorised, and captured", create(HALF, **MANUAL), capture(),
         order="PROCESSING PARTIALLY_AUTHORIZED PARTIALLY_PAID"),
    told("declined, charged again, declined, sent again", create(DECLINED), charge(DECLINED), again(GOOD),
         order="PROCESSING FAILED PROCESSING FAILED PROCESSING COMPLETED"),
    told("a part is declined", split(), part(DECLINED, 4000), order="PENDING PROCESSING PENDING"),
    told("a part, another, the rest", split(), part(GOOD, 3000), part(GOOD, 3000), part(GOOD),
         order="PENDING PROCESSING PARTIALLY_PAID PARTIALLY_PAID COMPLETED"),
    told("cancelled while nobody knows, and the money had been taken", create(SILENT), cancel(), recovery(),
         order="PROCESSING CANCELLATION_REQUESTED COMPLETED"),
    told("recovered", create(SILENT), recovery(), order="- PROCESSING COMPLETED"),
]  # fmt: skip


def _of_sessions() -> list[Story]:
    """What 3-D Secure and redirects lead to: from what the payer does in `status`."""
    stories = []
    done: tuple[tuple[str, Tender, object], ...] = (
        (DDR, DEVICE, device_data()),
        (CHR, CHALLENGE, validate()),
        ("ACTION_REQUIRED", REDIRECT, validate()),
    )
    for status, tender, goes_on in done:
        stories += [
            told(f"{status}, done", create(tender), goes_on, order=f"PROCESSING {status} AUTHORIZED"),
            told(f"{status}, captured now", create(tender), goes_on, order=f"{status} COMPLETED", **AT_ONCE),
            told(
                f"{status}, a part captured now",
                split(),
                part(tender, 4000),
                goes_on,
                order=f"{status} PARTIALLY_PAID",
                **AT_ONCE,
            ),
            told(f"{status}, nobody comes back", create(tender), later("PT16M"), order=f"{status} FAILED"),
            told(
                f"{status}, nobody comes back to a part",
                split(),
                part(tender, 4000),
                later("PT16M"),
                order=f"{status} PENDING",
            ),
            told(f"{status}, cancelled", create(tender), cancel(), order=f"{status} CANCELLED"),
            told(f"{status}, a part let go", split(), part(tender, 4000), cancel_part(), order=f"{status} PENDING"),
            told(
                f"{status}, a further part",
                split(),
                part(tender, 4000),
                part(GOOD, 4000),
                order=f"PENDING PROCESSING {status} PROCESSING PARTIALLY_PAID",
            ),
        ]
    return stories  # fmt: skip


SESSIONS = [
    told("device data lead to a challenge", create(DEVICE_FIRST), device_data(), order=f"PROCESSING {DDR} {CHR}"),
    told("the challenge is refused", create(CHALLENGE), validate("fail"), order=f"PROCESSING {CHR} FAILED"),
    told(
        "the challenge of a part is refused", split(), part(CHALLENGE, 4000), validate("fail"), order=f"{CHR} PENDING"
    ),
    *_of_sessions(),
]

REFERENCES = [
    told("a transfer covers", create(SPEI), deposit(10_000), order="PROCESSING REFERENCE_GENERATED COMPLETED"),
    told("transfers add up", create(SPEI), deposit(3000), deposit(3000), deposit(4000),
         order="REFERENCE_GENERATED PARTIALLY_PAID PARTIALLY_PAID COMPLETED"),
    told("nobody sends anything", pending(), charge(SPEI), later("PT73H"), order="PROCESSING REFERENCE_GENERATED PENDING"),
    told("nobody sends anything to an order of one moment", create(SPEI), later("PT73H"), order="REFERENCE_GENERATED FAILED"),
    told("a part let go", split(), part(SPEI), cancel_part(), order="REFERENCE_GENERATED PENDING"),
    told("a further part", split(), part(SPEI, 4000), part(GOOD, 4000), order="REFERENCE_GENERATED PROCESSING PARTIALLY_PAID"),
    told("cancelled", create(SPEI), cancel(), order="REFERENCE_GENERATED CANCELLED"),
    told("paid in another way", pending(), charge(SPEI), charge(GOOD), order="REFERENCE_GENERATED PROCESSING COMPLETED"),
    told("a part came late", split(), part(SPEI), later("PT73H"), deposit(4000), order="REFERENCE_GENERATED PENDING PARTIALLY_PAID"),
    told("all came late", split(), part(SPEI), later("PT73H"), deposit(10_000), order="REFERENCE_GENERATED PENDING COMPLETED"),
    told("it had failed, and all came", create(SPEI), later("PT73H"), deposit(10_000), order="FAILED COMPLETED"),
    told("it had failed, and a part came", create(SPEI), later("PT73H"), deposit(4000), order="FAILED PARTIALLY_PAID"),
    told("it was cancelled, and all came", create(SPEI), cancel(), deposit(10_000), order="CANCELLED COMPLETED"),
    told("it was cancelled, and a part came", create(SPEI), cancel(), deposit(4000), order="CANCELLED PARTIALLY_PAID"),
    told("half a card takes the place of a transfer that comes after all", pending(**MANUAL), charge(SPEI), charge(HALF),
         deposit(10_000, n=2), order="REFERENCE_GENERATED PROCESSING PARTIALLY_AUTHORIZED COMPLETED"),
]  # fmt: skip


def _of_grants() -> list[Story]:
    """What authorisations lead to, in full or in part."""
    stories = []
    for status, tender in (("AUTHORIZED", GOOD), ("PARTIALLY_AUTHORIZED", HALF)):
        stories += [
            told(
                f"{status}, let go",
                create(tender, **MANUAL),
                cancel(),
                order=f"PROCESSING {status} CANCELLATION_REQUESTED CANCELLED",
            ),
            told(f"{status}, lapses", create(tender, **MANUAL), later("P8D"), order=f"{status} FAILED"),
            told(
                f"{status}, a part lapses", split(**MANUAL), part(tender, 4000), later("P8D"), order=f"{status} PENDING"
            ),
            told(
                f"{status}, a further part",
                split(**MANUAL),
                part(tender, 4000),
                part(GOOD, 4000),
                order=f"PENDING PROCESSING {status} PROCESSING AUTHORIZED",
            ),
            told(
                f"{status}, a part is let go",
                split(**MANUAL),
                part(tender, 4000),
                cancel_part(),
                order=f"{status} CANCELLATION_REQUESTED PENDING",
            ),
            told(
                f"{status}, nobody could be told to let a part go",
                split(**MANUAL),
                part(tender, 4000),
                DOWN,
                cancel_part(),
                later(),
                order=f"{status} CANCELLATION_REQUESTED {status} CANCELLATION_REQUESTED PENDING",
            ),
        ]
    return stories  # fmt: skip


GRANTS = [
    told(
        "the bank does not let go",
        create(NO_VOID, **MANUAL),
        cancel(),
        order="AUTHORIZED CANCELLATION_REQUESTED AUTHORIZED",
    ),
    told("a capture is refused", create(NO_CAPTURE, **MANUAL), capture(), order="AUTHORIZED FAILED"),
    told(
        "the capture of a part is refused",
        split(**MANUAL),
        part(NO_CAPTURE, 4000),
        capture(),
        order="AUTHORIZED PENDING",
    ),
    *_of_grants(),
]

PAID = [
    told("cancelled with its money given back", split(), part(GOOD, 4000), cancel(**GIVING_BACK),
         order="PARTIALLY_PAID CANCELLATION_REQUESTED REFUNDED"),
    told("cancelled, and the money cannot be given back", split(), part(NO_REFUND, 4000), cancel(**GIVING_BACK),
         order="PARTIALLY_PAID CANCELLATION_REQUESTED PARTIALLY_PAID"),
    told("a part is refunded, and the order closed", split(), part(GOOD, 4000), refund(4000), cancel(),
         order="PARTIALLY_PAID REFUND_PROCESSING PARTIALLY_PAID REFUNDED"),
    told("refunded in parts", create(GOOD), refund(4000), refund(6000),
         order="COMPLETED REFUND_PROCESSING PARTIALLY_REFUNDED REFUND_PROCESSING REFUNDED"),
    told("refunded at once", create(SLOW_REFUND), refund(10_000), later("PT5S"), order="COMPLETED REFUND_PROCESSING REFUNDED"),
    told("a refund is refused", create(NO_REFUND), refund(4000), order="COMPLETED REFUND_PROCESSING COMPLETED"),
    told("a split order is refunded in part", split(), part(GOOD), refund(4000),
         order="COMPLETED REFUND_PROCESSING PARTIALLY_PAID"),
    told("disputes are lost, bit by bit", create(GOOD), later(), dispute("LOST", 2000), dispute("LOST", 3000), dispute("LOST"),
         order="COMPLETED PARTIALLY_REFUNDED PARTIALLY_REFUNDED REFUNDED"),
    told("a dispute about all is lost", create(GOOD), later(), dispute("LOST"), order="COMPLETED REFUNDED"),
    told("a dispute about a part of a split order is lost", split(), part(GOOD), later(), dispute("LOST", 2000),
         order="COMPLETED PARTIALLY_PAID"),
    told("a dispute about a transfer of less is lost in part", create(SPEI), deposit(6000), later(), dispute("LOST", 2000),
         order="PARTIALLY_PAID PARTIALLY_REFUNDED"),
    told("a dispute about a transfer of less is lost", create(SPEI), deposit(6000), later(), dispute("LOST"),
         order="PARTIALLY_PAID REFUNDED"),
]  # fmt: skip

LATE = [
    told("a transfer after the refund", create(SPEI), deposit(10_000), refund(10_000), later("PT5S"), deposit(500),
         order="REFUND_PROCESSING REFUNDED PARTIALLY_REFUNDED"),
    told("a transfer to a split order that was closed", split(), part(SPEI, 4000), deposit(4000), refund(4000), later("PT5S"),
         cancel(), deposit(500), order="PARTIALLY_PAID REFUNDED PARTIALLY_PAID"),
    told("a transfer of all to a split order that was closed", split(), part(SPEI, 4000), deposit(4000), refund(4000),
         later("PT5S"), cancel(), deposit(10_000), order="PARTIALLY_PAID REFUNDED COMPLETED"),
    told("one of two refunds of a cancellation is refused", pending(**MANUAL), charge(SPEI), deposit(4000), charge(NO_REFUND),
         capture(3000), cancel(**GIVING_BACK), later("PT5S"), order="CANCELLATION_REQUESTED PARTIALLY_REFUNDED"),
]  # fmt: skip

ORDER_STORIES = [*PROCESSING, *SESSIONS, *REFERENCES, *GRANTS, *PAID, *LATE]
