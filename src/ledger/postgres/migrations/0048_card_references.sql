-- The cards that processors keep: the names by which they are charged later, and no number. token and customer are the
-- processor's own names of the card and of whom it belongs to there. A row is written before the event that saves its payment
-- method, and settled once the log is known to have that event. A card that was saved again has several rows: the newest is
-- charged, and all are forgotten with the method.
create table payment_method_reference (
  merchant_id       uuid        not null,
  payment_method_id uuid        not null,
  token             text        not null,
  customer          text,
  customer_id       uuid        not null,
  account           text        not null,
  fingerprint       text,
  settled           bool        not null default false,
  kept_at           timestamptz not null default clock_timestamp(),
  touched_at        timestamptz not null default clock_timestamp(),
  unsettled_at      timestamptz not null default clock_timestamp(),
  primary key (merchant_id, payment_method_id, token)
);
-- The cards of a customer: to find the same card again, and to forget all of them.
create index payment_method_reference_customer on payment_method_reference (merchant_id, customer_id);
create index payment_method_reference_unsettled on payment_method_reference (touched_at) where not settled;
-- The sandbox's own record of the cards that it keeps, each by its test token.
create table sandbox_saved_card (
  book_id     uuid not null,
  token       text not null,
  test_token  text not null,
  primary key (book_id, token)
);
