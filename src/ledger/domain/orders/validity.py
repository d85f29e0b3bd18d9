"""How long an authorisation, a challenge, a reference and a refund window last, if the processor sets no time."""

from __future__ import annotations

from typing import Final

CHALLENGE_S: Final = 15 * 60
"""The time that a payer has for a 3-D Secure challenge or a redirect, in seconds (contract 2.1)."""
AUTHORIZATION_S: Final = 7 * 86_400
"""The validity of an authorisation that is not captured, in seconds (contract 2.1)."""
REFERENCE_S: Final = 72 * 3600
"""The validity of a reference, extended to its order's due date, in seconds (section 8.10)."""
REFUND_WINDOW_S: Final = 180 * 86_400
"""The period for refunds of a card payment, from its capture, in seconds (section 8.11)."""
