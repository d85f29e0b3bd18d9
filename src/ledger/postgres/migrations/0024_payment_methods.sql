-- Saved payment methods: what is shown of them, and apart from it the vault.

-- A saved payment method as it is served: doc is its JSON object, null once it is deleted. Lists show the default first,
-- then the newest.
create table payment_method (
  merchant_id       uuid        not null,
  payment_method_id uuid        not null,
  customer_id       uuid        not null,
  is_default        boolean     not null,
  created_at        timestamptz not null,
  doc               bytea,
  primary key (merchant_id, payment_method_id)
);
create index payment_method_of_customer on payment_method (merchant_id, customer_id) where doc is not null;

-- The vault: card numbers, each sealed under a key of its own, which a sealing key of the installation wraps. Only the
-- vault's role may read it: not the application, and not the owner of the tables. fingerprint is a keyed hash of the
-- number for one customer. A row is settled once the log is known to have its payment method; rows that are not are
-- looked at again after a while, and destroyed where the log has no such method.
create table vault_card (
  merchant_id       uuid        not null,
  payment_method_id uuid        not null,
  customer_id       uuid        not null,
  fingerprint       bytea       not null,
  sealing_key_id    text        not null,
  wrapped_key       bytea       not null,
  sealed_number     bytea       not null,
  settled           boolean     not null default false,
  touched_at        timestamptz not null default clock_timestamp(),
  primary key (merchant_id, payment_method_id)
);
create unique index vault_card_fingerprint on vault_card (merchant_id, customer_id, fingerprint);
create index vault_card_unsettled on vault_card (touched_at) where not settled;
revoke all on vault_card from public;
do $$ begin execute format('revoke all on vault_card from %I', current_user); end $$;
