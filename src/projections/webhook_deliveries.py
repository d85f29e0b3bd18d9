"""What is counted of the deliveries to merchants' webhook endpoints, which the worker writes."""

from __future__ import annotations

from typing import Final

# The endpoints of all merchants by status.
BY_STATUS: Final = "select status, count(*) from webhook_endpoint where status <> 'DELETED' group by status"

# How many events wait for the enabled endpoints of all merchants: those behind a cursor, and deliveries that have a
# row. Since when the oldest waits, in real time.
WAITING: Final = """
select coalesce(sum(number), 0)::int8, min(since) from (
  select f.sequence - c.sequence as number,
         (select v.recorded_at from public_event p
            join event v on v.merchant_id = p.merchant_id and v.position = p.position
           where p.merchant_id = c.merchant_id and p.sequence > c.sequence order by p.sequence limit 1) as since
    from webhook_endpoint e
    join webhook_cursor c on c.merchant_id = e.merchant_id and c.endpoint_id = e.endpoint_id
    join event_feed f on f.merchant_id = c.merchant_id
   where e.status = 'ENABLED' and c.sequence < f.sequence
  union all
  select count(*), min(d.recorded_at)
    from webhook_endpoint e
    join webhook_delivery d on d.merchant_id = e.merchant_id and d.endpoint_id = e.endpoint_id and d.status = 'PENDING'
   where e.status = 'ENABLED') w
"""
