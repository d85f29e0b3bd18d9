"""What the server adds to ASGI for the application."""

from __future__ import annotations

from typing import Final

RESPOND: Final = "ledger.respond"
"""The key of a request's scope under which the application finds `Exchange.respond`, if this server serves it."""

HAS_LEFT: Final = "ledger.has_left"
"""The key under which it finds `Exchange.has_left`."""

IS_ENDING: Final = "ledger.is_ending"
"""The key under which it finds a function that returns whether the process is to end: then no request waits on."""

ENDING: Final = "ledger.ending"
"""The key of the lifespan's scope under which it finds an event that is set once the process is to end."""
