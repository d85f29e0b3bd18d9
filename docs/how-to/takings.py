"""Adds up what a merchant captured on each day, by reading its log: `python docs/how-to/takings.py MERCHANT_ID`.

Continue from the last position that was read, never from a time: positions have no gap and are in the order of the commits.
"""

import os
import sys
from collections import Counter

from eventsourcing.application import Application

from ledger.domain.orders.events import LateCaptureReported, OrderCreated, PaymentCaptured
from ledger.postgres.embedded.data_dir import database
from ledger.settings import read_settings

settings = read_settings(os.environ)
currencies, captured = {}, Counter()
with database(settings.database_url, settings.data_dir) as url:
    log = Application(
        env={"PERSISTENCE_MODULE": "ledger.recorder", "LEDGER_DATABASE_URL": url, "LEDGER_MERCHANT_ID": sys.argv[1]}
    )
    position = 0
    while notifications := log.recorder.select_notifications(start=position + 1, limit=500):
        for notification in notifications:
            event = log.mapper.to_domain_event(notification).event
            if isinstance(event, OrderCreated):
                currencies[notification.originator_id] = event.currency
            elif isinstance(event, PaymentCaptured | LateCaptureReported):
                captured[event.at.date(), currencies[notification.originator_id]] += event.amount
        position = notifications[-1].id
    log.close()

for (day, currency), amount in sorted(captured.items()):
    sys.stdout.write(f"{day}  {currency}  {amount:>10}\n")
