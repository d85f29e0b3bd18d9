-- The worker deletes messages a month after they were applied, the oldest first. Lines of settlements stay, and so do
-- dismissed messages, which keep what they waited for.
create index processor_message_applied on processor_message (handled_at)
  where handled_at is not null and waits_for is null and not starts_with(body, '{"type":"settlement-');
