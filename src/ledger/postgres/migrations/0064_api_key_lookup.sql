-- Which merchant has the API key of a hash. On Citus, keys are with their merchants, and this is where a key's merchant
-- is found without asking each node. The first request with a key writes the row, which holds for good. On an ordinary
-- Postgres it stays empty.
create table api_key_lookup (
  key_hash    bytea primary key,
  merchant_id uuid  not null
);
