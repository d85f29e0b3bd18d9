-- What processors have told us, kept before anything is made of it. A message is known by its processor, the merchant that
-- it is for and its id; the second one with the same changes nothing. It waits until an order has taken it in, however long
-- that is: what comes before its order, or before the message that it follows, is tried again with back-off. Times are real.
create table processor_message (
  processor   text        not null,
  merchant_id uuid        not null,
  message_id  text        not null,
  order_id    uuid,
  received_at timestamptz not null default now(),
  body        text        not null,
  tries       int         not null default 0,
  next_try_at timestamptz not null default now(),
  waits_for   text,
  handled_at  timestamptz,
  primary key (processor, merchant_id, message_id)
);
create index processor_message_waiting on processor_message (next_try_at) where handled_at is null;
create index processor_message_of on processor_message (merchant_id, order_id) where handled_at is null;
