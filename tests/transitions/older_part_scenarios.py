"""Scenarios of split orders: the order shows its newest live part, and an older part when the newest one ends.

In all of them the older part waits, and only the newest part ends.
"""

from __future__ import annotations

from tests.transitions.scenario import CHR, DDR, Scenario, scenario
from tests.transitions.steps import (
    CHALLENGE,
    DEVICE,
    GOOD,
    HALF,
    MANUAL,
    NO_CAPTURE,
    REDIRECT,
    SILENT,
    SLOW,
    SPEI,
    Step,
    Tender,
    add_payment,
    advance_clock,
    cancel_payment,
    capture,
    recovery,
    split,
)

WAITING_PARTS: dict[str, tuple[Tender, tuple[Step, ...]]] = {
    "PROCESSING": (SILENT, ()),
    "REFERENCE_GENERATED": (SPEI, ()),
    "AUTHORIZED": (GOOD, ()),
    "PARTIALLY_AUTHORIZED": (HALF, ()),
    "ACTION_REQUIRED": (REDIRECT, ()),
    DDR: (DEVICE, ()),
    CHR: (CHALLENGE, ()),
    "CANCELLATION_REQUESTED": (SILENT, (cancel_payment(2),)),
}
"""By the status that a waiting part shows: how the part is paid, and the steps about it after a newer part exists."""

ENDING_PARTS: dict[str, tuple[Tender, Step]] = {
    "REFERENCE_GENERATED": (SPEI, cancel_payment()),
    "AUTHORIZED": (NO_CAPTURE, capture()),
    "ACTION_REQUIRED": (REDIRECT, cancel_payment()),
    DDR: (DEVICE, cancel_payment()),
    CHR: (CHALLENGE, cancel_payment()),
    "CANCELLATION_REQUESTED": (GOOD, cancel_payment()),
}
"""By the status that the newest part shows: how it is paid, and the step that ends it from that status."""


def _ending_scenario(ended: str, shown: str) -> Scenario:
    (newest, end), (older, then) = ENDING_PARTS[ended], WAITING_PARTS[shown]
    terms = {} if ended == "AUTHORIZED" else MANUAL  # a refused capture ends only what is captured automatically
    steps = (split(**terms), add_payment(older, 4000), add_payment(newest, 4000), *then, end)
    return scenario(f"{ended} ends before {shown}", *steps, order=f"{ended} {shown}")


def _lapse_scenario(ended: str, shown: str) -> Scenario:
    """Returns a scenario in which an authorisation lapses after seven days.

    The older part's outcome is recovered a moment before, so that the part has not expired as well.
    """
    steps = (
        split(**MANUAL),
        SLOW,
        add_payment(WAITING_PARTS[shown][0], 4000),
        add_payment(WAITING_PARTS[ended][0], 4000),
        advance_clock("P6DT23H55M"),
        recovery(),
        advance_clock("PT6M"),
    )
    return scenario(f"{ended} ends before {shown}", *steps, order=f"{ended} {shown}")


OLDER_PART_SCENARIOS = [
    *(
        _ending_scenario(ended, shown)
        for ended in ENDING_PARTS
        for shown in WAITING_PARTS
        if ended != shown and (ended, shown) != ("AUTHORIZED", "PARTIALLY_AUTHORIZED")
    ),
    *(_lapse_scenario("PARTIALLY_AUTHORIZED", shown) for shown in ("AUTHORIZED", "ACTION_REQUIRED", DDR, CHR)),
    _lapse_scenario("AUTHORIZED", "PARTIALLY_AUTHORIZED"),
    scenario(
        "PARTIALLY_AUTHORIZED ends before REFERENCE_GENERATED",
        split(**MANUAL, dueDate="2099-01-01T00:00:00Z"),
        add_payment(SPEI, 4000),
        add_payment(HALF, 4000),
        advance_clock("P8D"),
        order="PARTIALLY_AUTHORIZED REFERENCE_GENERATED",
    ),
]
