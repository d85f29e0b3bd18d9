"""On a split order the status shows the newest part that is alive: when that one ends, what an older one waits for shows.

The rule a stranger would break: the older part waits in all of these, and only the newest one ends.
"""

from __future__ import annotations

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
    cancel_part,
    capture,
    later,
    part,
    recovery,
    split,
)
from tests.transitions.told import CHR, DDR, Story, told

WAITS: dict[str, tuple[Tender, tuple[Step, ...]]] = {
    "PROCESSING": (SILENT, ()),
    "REFERENCE_GENERATED": (SPEI, ()),
    "AUTHORIZED": (GOOD, ()),
    "PARTIALLY_AUTHORIZED": (HALF, ()),
    "ACTION_REQUIRED": (REDIRECT, ()),
    DDR: (DEVICE, ()),
    CHR: (CHALLENGE, ()),
    "CANCELLATION_REQUESTED": (SILENT, (cancel_part(2),)),
}
"""How a part is paid that waits so, and what is still asked of it once there is a newer one."""

ENDS: dict[str, tuple[Tender, Step]] = {
    "REFERENCE_GENERATED": (SPEI, cancel_part()),
    "AUTHORIZED": (NO_CAPTURE, capture()),
    "ACTION_REQUIRED": (REDIRECT, cancel_part()),
    DDR: (DEVICE, cancel_part()),
    CHR: (CHALLENGE, cancel_part()),
    "CANCELLATION_REQUESTED": (GOOD, cancel_part()),
}
"""How the newest part is paid, and how it comes to its end in the status that it showed in."""


def _ends(ended: str, shown: str) -> Story:
    (newest, end), (older, then) = ENDS[ended], WAITS[shown]
    steps = (split(**MANUAL), part(older, 4000), part(newest, 4000), *then, end)
    return told(f"{ended} ends before {shown}", *steps, order=f"{ended} {shown}")


def _lapses(shown: str) -> Story:
    """Half an authorisation lapses after seven days; what an older part waits for was only heard of a moment before."""
    steps = (
        split(**MANUAL),
        SLOW,
        part(WAITS[shown][0], 4000),
        part(HALF, 4000),
        later("P6DT23H55M"),
        recovery(),
        later("PT6M"),
    )
    return told(f"PARTIALLY_AUTHORIZED ends before {shown}", *steps, order=f"PARTIALLY_AUTHORIZED {shown}")


OLDER_PART_STORIES = [
    *(_ends(ended, shown) for ended in ENDS for shown in WAITS if ended != shown),
    *(_lapses(shown) for shown in ("AUTHORIZED", "ACTION_REQUIRED", DDR, CHR)),
    told(
        "PARTIALLY_AUTHORIZED ends before REFERENCE_GENERATED",
        split(**MANUAL, dueDate="2099-01-01T00:00:00Z"),
        part(SPEI, 4000),
        part(HALF, 4000),
        later("P8D"),
        order="PARTIALLY_AUTHORIZED REFERENCE_GENERATED",
    ),
]
