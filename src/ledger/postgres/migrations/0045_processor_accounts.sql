-- Merchants' accounts with payment processors. state: JSON, what the events of the account's stream come to, without any
-- secret.
create table processor_account (
  merchant_id uuid        not null,
  account_id  uuid        not null,
  version     int4        not null,
  name        text        collate "C" not null,
  created_at  timestamptz not null,
  state       bytea       not null,
  primary key (merchant_id, account_id)
) with (fillfactor = 80);

-- Their secret keys. wrapped_key: JSON under a sealing key of the installation, bound to its merchant and secret_id. A row
-- is written before the event that names it and never changes but for its sealing key.
create table processor_account_key (
  merchant_id    uuid        not null,
  secret_id      uuid        not null,
  account_id     uuid        not null,
  sealing_key_id text        not null,
  wrapped_key    bytea       not null,
  kept_at        timestamptz not null default clock_timestamp(),
  primary key (merchant_id, secret_id)
);
-- The keys of an account, which are destroyed once others have replaced them.
create index processor_account_key_account on processor_account_key (merchant_id, account_id);
