"""One client of a crowd: the requests of a walk, about the orders that all clients share, through either machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from campaigns.chaos.clients import Merchant
from campaigns.chaos.wire import Answer, Lost, NotSent, Wire
from campaigns.walker.walk import Fits, Json, Walk, content_of

_LATEST: Final = 6
"""Of how many of the latest orders a client chooses one: few, so that several clients have the same one."""
_PATIENCE_S: Final = 40.0
"""How long a request under a key may take until it has its answer: longer than a killed call takes to be looked up."""
_AGAIN: Final = frozenset({"REQUEST_IN_PROGRESS", "CONCURRENT_UPDATE"})
_NOTHING: Final = Answer(503, {}, b"")
"""What a client has of a request without a key whose answer was lost."""


class Member(Walk):
    """A client that knows what `first` knows. `ports` are those of the machines, as they are now."""

    def __init__(self, ports: Sequence[Callable[[], int]], merchant: Merchant, seed: int, first: Member | None) -> None:
        super().__init__(0, merchant, seed)
        self.ports = ports
        self.lost = 0
        if first is not None:
            self.orders, self.customers, self.cards = first.orders, first.customers, first.cards
            self.plans, self.subscriptions = first.plans, first.subscriptions
            self.wrong, self.statuses, self.reached = first.wrong, first.statuses, first.reached

    def some(self, fits: Fits) -> Json | None:
        """Returns one of the few latest orders that fit, as one of the clients saw it last, or None."""
        found = [order for order in list(self.orders.values())[-_LATEST:] if fits(order)]
        return self.random.choice(found) if found else None

    async def send(
        self, method: str, path: str, body: Json | str | None = None, key: str | None = None, wire: Wire | None = None
    ) -> Answer:
        """Sends a request to one of the machines; one under a key again, until it has its answer."""
        del wire
        until = time.monotonic() + _PATIENCE_S
        while True:
            answer = await self._ask(method, path, body, key)
            if answer is not None and (key is None or content_of(answer).get("code") not in _AGAIN):
                return answer
            if key is None:
                return _NOTHING
            if time.monotonic() > until:
                self.wrong.append(f"{method} {path} has no answer under its key: {answer}")
                return _NOTHING
            await asyncio.sleep(0.5)

    async def _ask(self, method: str, path: str, body: Json | str | None, key: str | None) -> Answer | None:
        """Returns the answer to a request on a connection of its own, None if it was lost."""
        wire = Wire(timeout_s=60.0)
        try:
            return await super().send(method, path, body, key, wire)
        except (NotSent, Lost) as lost:
            self.lost += 1
            if str(lost) == "time-out":
                self.wrong.append(f"{method} {path} was not answered in a minute")
            return None
        finally:
            await wire.close()

    def port(self) -> int:
        """Returns the port of one of the machines."""
        return self.random.choice(self.ports)()
