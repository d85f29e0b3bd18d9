-- Plans, as they are answered (doc, a JSON object) and as a subscription shows its plan (summary).

-- external_id is the merchant's own id of the plan, which is a claim as well.
create table plan (
  merchant_id uuid        not null,
  plan_id     uuid        not null,
  version     int4        not null,
  external_id text        collate "C",
  status      text        collate "C" not null,
  created_at  timestamptz not null,
  summary     bytea       not null,
  doc         bytea       not null,
  primary key (merchant_id, plan_id)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- A plan by the merchant's id.
create unique index plan_by_external_id on plan (merchant_id, external_id) where external_id is not null;
-- The list, newest first, and its totals.
create index plan_created on plan (merchant_id, created_at, plan_id) include (status);
