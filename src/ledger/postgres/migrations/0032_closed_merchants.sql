-- The time from which a merchant is closed; null for an open one.
alter table merchant add column closed_at timestamptz;
