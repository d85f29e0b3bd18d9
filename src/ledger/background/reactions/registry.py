"""Which reactions there are, and what is done when something is due: the one list that workers and clocks go by.

The rule a stranger would break: a kind that a reaction makes due has its handler here. A job without one is tried again
until it is given up, loudly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ledger.background.reactions import order_timers, payment_index
from ledger.background.reactions.dispatcher import AnyReaction
from ledger.background.scheduler.jobs import Handler

REACTIONS: Final[tuple[AnyReaction, ...]] = (order_timers.OrderTimers(), payment_index.PaymentIndex())
HANDLERS: Final[Mapping[str, Handler]] = {**order_timers.HANDLERS}
