-- The accounts that the daily comparison could not read: since when each is not compared, and when it is tried again.
-- The account that all merchants of a sandbox share has the merchant 00000000-0000-0000-0000-000000000000.
create table reconciliation_waiting (
  merchant_id uuid        not null,
  account     text        not null,
  since       timestamptz not null,
  next_try_at timestamptz not null default now() + interval '1 hour',
  primary key (merchant_id, account)
);
