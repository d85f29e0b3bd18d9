-- Until when the messages of an account have been read from its processor's own list, in which those are too that never
-- arrived.
create table processor_account_read (
  merchant_id uuid        not null,
  account     text        not null,
  read_until  timestamptz not null,
  primary key (merchant_id, account)
);
