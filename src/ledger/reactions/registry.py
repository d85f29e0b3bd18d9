"""Which reactions there are, and what is done when something is due: the one list that workers and clocks go by.

The rule a stranger would break: a kind that a reaction makes due has its handler here. A job without one is tried again
until it is given up, loudly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ledger.reactions import order_dues, payment_names
from ledger.reactions.dispatcher import AnyReaction
from ledger.reactions.jobs import Handler

REACTIONS: Final[tuple[AnyReaction, ...]] = (order_dues.OrderDues(), payment_names.PaymentNames())
HANDLERS: Final[Mapping[str, Handler]] = {**order_dues.HANDLERS}
