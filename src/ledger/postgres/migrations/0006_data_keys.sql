-- The customers' data keys, which seal what is personal in the log. wrapped is the key itself under the sealing key that
-- sealing_key_id names. A destroyed key leaves its row behind, empty, so that it is never mistaken for a lost one.
-- forgotten_at: when the last read model that showed the person had been written again.
create table data_key (
  merchant_id    uuid not null,
  customer_id    uuid not null,
  sealing_key_id text,
  wrapped        bytea,
  destroyed_at   timestamptz,
  forgotten_at   timestamptz,
  primary key (merchant_id, customer_id),
  check ((wrapped is null) = (sealing_key_id is null)),
  check ((wrapped is null) = (destroyed_at is not null))
);
-- Erasures that are not finished, over all merchants: a handful at any time.
create index data_key_unfinished on data_key (destroyed_at) where destroyed_at is not null and forgotten_at is null;
