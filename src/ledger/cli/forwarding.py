"""Posts public events, signed, to a program on the operator's machine: for `ledger events follow --forward-to`."""

from __future__ import annotations

from ipaddress import ip_network
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import typer

from ledger.cli.output import echo_json
from ledger.domain.rejections import InvalidField
from ledger.settings import CannotRun, Settings, webhook_networks
from ledger.webhooks.addresses import Destinations
from ledger.webhooks.client import WebhookClient
from ledger.webhooks.signing import new_secret

if TYPE_CHECKING:
    from collections.abc import Sequence

    from projections.events.numbered import NumberedEvent

_THIS_MACHINE: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


class Forwarder:
    """Posts events to one URL, each once and in their order, and prints a line for each.

    http reaches this machine, and the networks of LEDGER_WEBHOOK_ALLOW: events have names and addresses of customers.
    """

    def __init__(self, url: str, settings: Settings, *, prints_json: bool = False) -> None:
        self._url = url
        self._prints_json = prints_json
        self._secret = new_secret()
        self._client = WebhookClient(Destinations(networks=(*_THIS_MACHINE, *webhook_networks(settings))))

    async def __aenter__(self) -> Self:
        """Prints the secret by which the events are signed. Raises CannotRun for a URL that may not be posted to."""
        try:
            await self._client.require_permitted(self._url)
        except InvalidField as wrong:
            await self._client.close()
            raise CannotRun(f"--forward-to {wrong.problem}") from None
        if self._prints_json:
            echo_json({"signingSecret": self._secret})
        else:
            typer.echo(f"signing secret {self._secret}")
        return self

    async def __aexit__(self, _type: type[BaseException] | None, _raised: object, _trace: TracebackType | None) -> None:
        await self._client.close()

    async def send(self, events: Sequence[NumberedEvent], bodies: Sequence[bytes]) -> None:
        """Posts events. One that the program does not accept is reported, and not posted again."""
        for event, body in zip(events, bodies, strict=True):
            attempt = await self._client.post(self._url, str(event.id), body, [self._secret])
            if self._prints_json:
                echo_json(
                    {
                        "sequence": event.sequence,
                        "type": event.kind.name,
                        "status": attempt.response_status,
                        "durationMs": attempt.duration_ms,
                        "error": attempt.error,
                    }
                )
                continue
            ended = attempt.error or f"{attempt.response_status}, {attempt.duration_ms} ms"
            typer.echo(f"{event.sequence} {event.kind.name} {ended}")
