-- The changes of the customer from which another was derived: a customer as it was in the past shows those that were
-- related to it then. No other event is in the index.
create index event_of_source_changes on event (merchant_id, position) where topic = 'customer-source-changed.v1';
