-- How far the events of a merchant were delivered to each of its endpoints, and which worker delivers them.
-- origin: the position of the log behind which the endpoint gets events. sequence: every event up to this number has been
-- recorded in webhook_delivery or is of no kind that the endpoint chose; null until a worker has begun. version: of the
-- endpoint's stream, as the worker knows it. holder: the token of the lease. failures_in_a_row: attempts since the last
-- success. failing_since, due_at and last_success_at are by the merchant's clock; paused_until is real time.
create table webhook_cursor (
  merchant_id       uuid        not null,
  endpoint_id       uuid        not null,
  origin            int8        not null default -1,
  sequence          int8,
  version           int4        not null default 0,
  holder            uuid,
  held_until        timestamptz,
  failures_in_a_row int4        not null default 0,
  failing_since     timestamptz,
  last_success_at   timestamptz,
  paused_until      timestamptz,
  due_at            timestamptz,
  replay_after      int8,
  replay_until      int8,
  replay_failed     bool        not null default false,
  primary key (merchant_id, endpoint_id)
) with (fillfactor = 50);

-- The deliveries of thirty days. id is a UUIDv7 of the real time at which the delivery was recorded. attempts is a JSON
-- array, body the bytes of an event whose first attempt failed: later attempts send the same. customer_id is whose data
-- the texts may have (has_texts: a body, or the beginning of an answer): they are removed with that person.
create table webhook_delivery (
  merchant_id     uuid        not null,
  endpoint_id     uuid        not null,
  id              uuid        not null,
  event_id        uuid        not null,
  sequence        int8        not null,
  kind            text        not null,
  stream_id       uuid        not null,
  status          text        not null check (status in ('PENDING', 'SUCCEEDED', 'FAILED', 'SKIPPED')),
  is_repeat       bool        not null default false,
  next_attempt_at timestamptz check ((next_attempt_at is null) = (status <> 'PENDING')),
  first_failed_at timestamptz,
  attempts        jsonb       not null,
  body            bytea,
  customer_id     uuid,
  has_texts       bool        not null default false,
  recorded_at     timestamptz not null default clock_timestamp(),
  primary key (merchant_id, endpoint_id, id)
);
-- An event is delivered once to an endpoint, but for repeats that the merchant asks for.
create unique index webhook_delivery_once on webhook_delivery (merchant_id, endpoint_id, sequence) where not is_repeat;
create index webhook_delivery_due on webhook_delivery (merchant_id, endpoint_id, next_attempt_at) where status = 'PENDING';
-- The order in a stream, and the deliveries of one order.
create index webhook_delivery_stream on webhook_delivery (merchant_id, endpoint_id, stream_id, sequence);
create index webhook_delivery_recorded on webhook_delivery (recorded_at);
create index webhook_delivery_personal on webhook_delivery (merchant_id, customer_id) where has_texts;
-- Who was erased lately.
create index data_key_destroyed on data_key (destroyed_at) where destroyed_at is not null;
