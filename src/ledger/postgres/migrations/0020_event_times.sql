-- The events of a time, which reconciliation reads once a day. Times follow the order of the rows, so a few bytes for every 128
-- pages are enough, and an insert writes to this index once for 128 pages.
create index event_recorded_at on event using brin (recorded_at);
