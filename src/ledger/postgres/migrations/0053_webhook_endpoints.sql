-- Where merchants' public events are posted. number: the merchant's endpoints count from 1. status: DELETED too, because
-- the numbers of deleted endpoints are not given again. from_version: of the event after which the endpoint gets what is
-- committed. state: JSON, what the events of the endpoint's stream come to, without any secret.
create table webhook_endpoint (
  merchant_id  uuid        not null,
  endpoint_id  uuid        not null,
  version      int4        not null,
  number       int4        not null,
  status       text        collate "C" not null,
  from_version int4        not null,
  created_at   timestamptz not null,
  state        bytea       not null,
  primary key (merchant_id, endpoint_id)
) with (fillfactor = 80);
-- The number of the next endpoint.
create index webhook_endpoint_number on webhook_endpoint (merchant_id, number);
-- A merchant's endpoints, and what the worker posts to: both without the deleted ones, of which there may be thousands.
create index webhook_endpoint_present on webhook_endpoint (merchant_id, number) where status <> 'DELETED';

-- The secrets by which messages to endpoints are signed. wrapped_key: the secret under a sealing key of the installation,
-- bound to its merchant and secret_id. A row is written before the event that names it and never changes but for its
-- sealing key.
create table webhook_secret (
  merchant_id    uuid        not null,
  secret_id      uuid        not null,
  endpoint_id    uuid        not null,
  sealing_key_id text        not null,
  wrapped_key    bytea       not null,
  kept_at        timestamptz not null default clock_timestamp(),
  primary key (merchant_id, secret_id)
);
-- The secrets of an endpoint, which are destroyed once no event names them as valid.
create index webhook_secret_endpoint on webhook_secret (merchant_id, endpoint_id);
