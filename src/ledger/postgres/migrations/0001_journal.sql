-- The event store. Every key begins with merchant_id, nothing is numbered across merchants, and ids come from the
-- application, so that the same tables can one day be distributed by merchant.

-- Where each merchant's log ends. A writer locks the heads of its batch, in order, before it checks or numbers anything:
-- this is what makes positions gap-free and commit-ordered. Updated by every batch: room on the page keeps that HOT.
create table merchant_head (
  merchant_id uuid primary key,
  position    int8 not null default 0
) with (fillfactor = 30);

-- The log. Rows are inserted and never touched again. (stream_id, version) is the optimistic lock, position the order in
-- which a merchant's events were committed; data is the event as deterministic JSON, context is who asked and why.
create table event (
  merchant_id uuid        not null,
  stream_id   uuid        not null,
  version     int4        not null check (version > 0),
  position    int8        not null check (position > 0),
  command_id  uuid        not null,
  recorded_at timestamptz not null,
  topic       text        not null,
  data        bytea       not null,
  context     bytea       not null,
  primary key (merchant_id, stream_id, version)
);
-- Events of one to three kilobytes are the rule; compressing each would cost more than the disk it saves.
alter table event set (toast_tuple_target = 8160);
alter table event alter column data set storage external;

create unique index event_position on event (merchant_id, position);

-- Keys that one stream owns for ever: external ids, idempotency keys. Taken in the commit that needs them, and the
-- way from an external id to its stream.
create table claim (
  merchant_id uuid not null,
  kind        int4 not null,
  key         text not null,
  stream_id   uuid not null,
  primary key (merchant_id, kind, key)
);

-- Order numbers are unique over all merchants without an index to check: a process takes a block of ordinals at a time.
create sequence order_number_block;
