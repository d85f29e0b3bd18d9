-- Plans, subscriptions and the invoices of subscriptions, as they are answered.

-- doc is the plan's JSON object, summary the one that a subscription shows. external_id is the merchant's own id of the
-- plan, which is a claim as well.
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

-- A subscription that has started. doc is its JSON object without the metadata, which are personal data, and without the
-- plan, which is read with it.
create table subscription (
  merchant_id     uuid        not null,
  subscription_id uuid        not null,
  version         int4        not null,
  external_id     text        collate "C",
  customer_id     uuid        not null,
  plan_id         uuid        not null,
  status          text        collate "C" not null,
  created_at      timestamptz not null,
  doc             bytea       not null,
  metadata        bytea,
  primary key (merchant_id, subscription_id)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

create unique index subscription_by_external_id on subscription (merchant_id, external_id)
  where external_id is not null;
-- The lists, newest first, and their totals.
create index subscription_created on subscription (merchant_id, created_at, subscription_id) include (status);
create index subscription_of_customer on subscription (merchant_id, customer_id, created_at, subscription_id);
create index subscription_of_plan on subscription (merchant_id, plan_id, created_at, subscription_id);
-- Samples of this column would stay in pg_statistic after an erasure. No plan needs them.
alter table subscription alter column metadata set statistics 0;

-- The commit that erases a customer also removes the metadata of its subscriptions, those that have ended included.
create function forget_subscriber() returns trigger language plpgsql as $$
begin
  update subscription set metadata = null
   where merchant_id = new.merchant_id and customer_id = new.customer_id and metadata is not null;
  return null;
end
$$;
create trigger forget_subscriber after update on customer for each row
  when (new.erased and not old.erased) execute function forget_subscriber();

-- An invoice of a subscription: doc is its JSON object, ordinal its number within the subscription.
create table subscription_invoice (
  merchant_id     uuid  not null,
  invoice_id      uuid  not null,
  subscription_id uuid  not null,
  ordinal         int4  not null,
  doc             bytea not null,
  primary key (merchant_id, invoice_id)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- The invoices of a subscription, the newest first.
create index subscription_invoice_of on subscription_invoice (merchant_id, subscription_id, ordinal);
