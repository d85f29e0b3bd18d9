-- The orders with documents that could not be drawn up, for the report of a month. No other event is in the index.
create index event_of_blocked_invoicing on event (merchant_id, recorded_at) where topic = 'invoicing-blocked.v1';
