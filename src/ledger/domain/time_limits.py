"""How long refunds, sessions, authorisations and references are valid where a processor sets no time of its own.

All are in seconds.
"""

from __future__ import annotations

from typing import Final

REFUND_WINDOW_S: Final = 180 * 86_400
"""The period for refunds of a card payment, from its capture (section 8.11)."""
SESSION_S: Final = 15 * 60
"""The time that a payer has for 3-D Secure or a redirect (contract 2.1)."""
AUTHORIZATION_S: Final = 7 * 86_400
"""The validity of an authorisation that is not captured (contract 2.1)."""
REFERENCE_S: Final = 72 * 3600
"""The validity of a reference, extended to its order's due date (section 8.10)."""
