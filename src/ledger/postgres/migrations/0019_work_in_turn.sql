-- Work that is due is taken from each merchant in turn, without reading the rows of merchants that have much of it.

-- Until when a worker has claimed a message. No other message of its order is claimed meanwhile.
alter table processor_message add column claimed_until timestamptz;
-- The next message of each merchant.
create index processor_message_of_merchant on processor_message (merchant_id, next_try_at) where handled_at is null;

-- The other messages of an order, found by the order alone.
drop index processor_message_of;
create index processor_message_of on processor_message (order_id, merchant_id) where handled_at is null;

-- The next open call of each merchant.
drop index payment_order_open_call;
create index payment_order_open_call on payment_order (merchant_id, call_deadline_at) where call_deadline_at is not null;

-- The next unfinished erasure of each merchant.
drop index data_key_unfinished;
create index data_key_unfinished on data_key (merchant_id, destroyed_at) where destroyed_at is not null and forgotten_at is null;

-- The next job of each queue, and the open jobs of a lock. The queue's tables may be in a schema of their own (see 0007).
select set_config('search_path', current_setting('search_path') || ', ' || quote_ident(current_schema() || '_jobs'), true);
create index ledger_jobs_next on procrastinate_jobs (queue_name, (coalesce(scheduled_at, '-infinity')), id) where status = 'todo';
create index ledger_jobs_lock on procrastinate_jobs (lock) where lock is not null and status < 'succeeded';
