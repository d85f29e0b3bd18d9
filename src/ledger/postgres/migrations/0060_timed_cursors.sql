-- The endpoints at which a worker looks again because time passes: a lease may have ended, a delivery may be due, a pause
-- may be over. The others wait for a change, which wakes the worker.
create index webhook_cursor_timed on webhook_cursor (merchant_id, endpoint_id)
  where holder is not null or due_at is not null or paused_until is not null;
