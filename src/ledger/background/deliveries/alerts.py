"""Writes to a merchant that an endpoint was disabled because of its receiver.

It follows from the endpoint's stream and from the version that the cursor has: a worker that ends in between does it
again, so the merchant may get the e-mail twice, under one Message-ID. It is tried for a day.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from uuid import UUID, uuid5

import structlog

from ledger.domain.webhooks.events import WebhookEndpointDisabled
from ledger.domain.webhooks.state import WebhookEndpoint
from ledger.domain.webhooks.terms import DisabledReason
from ledger.notifications.contract import Notification, NotificationFailed, NotificationRefused
from ledger.notifications.messages import Addressee, webhook_disabled
from ledger.operations.context.ledger import Ledger
from ledger.telemetry.metrics import WEBHOOK_ALERTS

_log = structlog.get_logger()

_LANGUAGE: Final = "es"
_ATTEMPT_S: Final = 20.0
_TRIED_FOR: Final = timedelta(days=1)


async def alert(ledger: Ledger, merchant_id: UUID, endpoint: WebhookEndpoint, seen: int) -> None:
    """Writes to the merchant's `alertEmail` that an endpoint was disabled since its version `seen`.

    Does nothing without such an address, or if the merchant disabled it. Gives up if the mail server refuses the
    message, or does not take it a day after the endpoint was disabled. Raises NotifierUnavailable and
    NotificationUnanswered before, after which it is to be done again; a Fault.
    """
    events = await ledger.journal.reader.stream(merchant_id, endpoint.endpoint_id)
    disabled = next((each for each in reversed(events[seen:]) if isinstance(each, WebhookEndpointDisabled)), None)
    if disabled is None or disabled.reason is DisabledReason.MERCHANT:
        return
    merchant = await ledger.merchant(merchant_id)
    if merchant.settings.alert_email is None:
        return
    to = Addressee(
        merchant=merchant.name, time_zone=merchant.settings.time_zone, customer_name=None, language=_LANGUAGE
    )
    is_gone = disabled.reason is DisabledReason.GONE
    notification = Notification(
        notification_id=uuid5(endpoint.endpoint_id, f"disabled:{disabled.at.isoformat()}"),
        sender_name=merchant.name,
        recipient=merchant.settings.alert_email,
        message=webhook_disabled(to, url=endpoint.terms.url, is_gone=is_gone, disabled_at=disabled.at),
        about={"merchant_id": str(merchant_id), "endpoint_id": str(endpoint.endpoint_id)},
    )
    try:
        await ledger.notifier.send(notification, _ATTEMPT_S)
    except Exception as fault:
        is_late = ledger.clock.now(merchant_id) - disabled.at >= _TRIED_FOR
        if not is_late and not isinstance(fault, NotificationRefused):
            WEBHOOK_ALERTS.labels("postponed").inc()
            raise
        WEBHOOK_ALERTS.labels("dropped").inc()
        code = fault.code if isinstance(fault, NotificationFailed) else type(fault).__name__
        _log.warning("webhook_alert_dropped", endpoint_id=str(endpoint.endpoint_id), code=code)
        return
    WEBHOOK_ALERTS.labels("sent").inc()
