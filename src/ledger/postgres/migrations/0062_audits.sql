-- The audits of merchants' logs that requests have asked for. A worker carries them out, one at a time. created_at, due_at
-- and ended_at are real times.
create table audit (
  merchant_id  uuid        not null,
  audit_id     uuid        not null,
  status       text        not null,  -- QUEUED, RUNNING, CLEAN, VIOLATIONS, FAILED
  created_at   timestamptz not null,
  due_at       timestamptz not null,  -- when it may begin, and begin again after its process has failed
  ended_at     timestamptz,
  tries        int4        not null default 0,  -- how many processes have begun it
  events       int8        not null default 0,  -- how many it has read, of how many
  events_total int8        not null,
  violations   int8,                  -- how many it has found
  report       bytea,                 -- JSON
  failure      text,                  -- why it ended FAILED, for people
  primary key (merchant_id, audit_id)
);
create unique index audit_open on audit (merchant_id) where ended_at is null;
create index audit_due on audit (due_at) where ended_at is null;
create index audit_created on audit (merchant_id, created_at, audit_id);
create index audit_found on audit (merchant_id) where violations > 0;
create index audit_ended on audit (ended_at) where violations is not null;
