-- The public events of merchants, numbered in the order of each one's log. A merchant that has never read its feed has
-- no row here, and costs nothing.

-- How far a merchant's log has been numbered, and the last number. Both move in the statement that inserts the numbers.
-- past is where the log ended when the numbering began: until it is reached, the feed is behind.
create table event_feed (
  merchant_id uuid        primary key,
  position    int8        not null default 0,
  sequence    int8        not null,
  past        int8        not null,
  since       timestamptz not null default now()
) with (fillfactor = 50);

-- The public events. Rows are inserted and never touched again: a number that was sent stays. Nothing of a payer is in
-- them. until_position is the last position of the event's command: what the event shows of other streams is as it was
-- then.
create table public_event (
  merchant_id     uuid        not null,
  sequence        int8        not null,
  id              uuid        not null,
  kind            text        not null,
  resource_id     uuid        not null,
  stream_id       uuid        not null,
  version         int4        not null,
  position        int8        not null,
  until_position  int8        not null,
  payment_id      uuid,
  refund_id       uuid,
  dispute_id      text,
  document_id     uuid,
  previous_status text,
  at              timestamptz not null,
  primary key (merchant_id, sequence)
);
create unique index public_event_id on public_event (merchant_id, id);
create index public_event_stream on public_event (merchant_id, stream_id, sequence);

-- Below which number no merchant's numbering begins: 0, except after `ledger restore`, since which a number may have been
-- sent that the restored copy lacks.
create table event_numbers (
  one    bool primary key default true check (one),
  behind int8 not null default 0
);
insert into event_numbers default values;
