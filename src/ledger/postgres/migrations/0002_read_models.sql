-- What is true now, for reading. Every row here can be computed again from the log; whoever changes a column rebuilds.
-- Rows are written in the append's own transaction, under the head lock of their merchant.

-- A payment order as it is served. head is its JSON object without customer, payments and what depends on the moment of
-- reading; payments is the JSON array with each payment's history. The other columns are what lists filter and sort by.
-- call_deadline_at: the real time until which the oldest call to a processor that has no outcome yet was to be answered.
create table payment_order (
  merchant_id      uuid        not null,
  order_id         uuid        not null,
  version          int4        not null,
  status           text        not null,
  customer_id      uuid        not null,
  external_id      text        not null,
  order_number     text        not null,
  invoice_number   text,
  due_at           timestamptz,
  created_at       timestamptz not null,
  updated_at       timestamptz not null,
  call_deadline_at timestamptz,
  head             bytea       not null,
  payments         bytea       not null,
  primary key (merchant_id, order_id)
);
-- A row weighs two to five kilobytes and nearly every update changes an indexed column (status), so it could not be HOT
-- with any room left on the page: measured at 100, 70 and 50, speed, WAL and size are the same. What the few updates of an
-- order's first minutes leave behind is collected early, before the table has grown around it; vacuuming often also keeps
-- the visibility map fresh, on which counting a date range from the index alone depends.
alter table payment_order set (
  fillfactor = 100,
  toast_tuple_target = 8160,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.02
);
-- Rows stay in line and as they are: compressing each would cost more than the disk it saves.
alter table payment_order alter column head set storage external;
alter table payment_order alter column payments set storage external;

-- The list, newest or oldest first; with the order's id, the order is total and a cursor can stand on any row.
create index payment_order_created on payment_order (merchant_id, created_at, order_id);
-- The same list of one status.
create index payment_order_status on payment_order (merchant_id, status, created_at, order_id);
-- What the recovery looks for, over all merchants: a handful of rows at any time.
create index payment_order_open_call on payment_order (call_deadline_at) where call_deadline_at is not null;

-- The customer as it stands inside an order (doc, a JSON object) and what it is found by. Its external id is a claim.
create table customer (
  merchant_id uuid  not null,
  customer_id uuid  not null,
  version     int4  not null,
  external_id text  not null,
  email       text,
  doc         bytea not null,
  primary key (merchant_id, customer_id)
);

-- How many orders a merchant created on a UTC day stand in a status. Moved by every batch, in place: half a page of room
-- keeps that HOT, no index changes with n. A row may stand at 0.
create table tally (
  merchant_id uuid not null,
  day         date not null,
  status      text not null,
  n           int8 not null,
  primary key (merchant_id, day, status)
) with (fillfactor = 50);

-- The merchant's name and settings (a JSON object).
create table merchant (
  merchant_id uuid        primary key,
  version     int4        not null,
  name        text        not null,
  settings    bytea       not null,
  created_at  timestamptz not null,
  updated_at  timestamptz not null
);

-- The way from an API key to its merchant: a lookup over all merchants, therefore the one key that does not begin with
-- merchant_id. key_hash is HMAC-SHA256 of the key under the installation's pepper; the key itself stands nowhere.
create table api_key (
  key_hash    bytea       primary key,
  merchant_id uuid        not null,
  key_id      uuid        not null,
  name        text,
  hint        text        not null,
  scopes      text        not null,
  created_at  timestamptz not null,
  expires_at  timestamptz,
  revoked_at  timestamptz
);
create index api_key_merchant on api_key (merchant_id, key_id);
