-- The sandbox processor's own book: what a company outside would know. The ledger never reads it; it asks the processor.

-- One row per call that reached the processor, with the answer it decided on: written before the answer is given, so that a
-- look-up by the same key tells the truth after any crash. Amounts are minor units times ten thousand. Of the card only
-- what may be printed: the first six digits and the last four.
create table sandbox_charge (
  merchant_id        uuid        not null,
  idempotency_key    text        not null,
  booked_at          timestamptz not null default now(),
  amount             int8        not null check (amount > 0),
  currency           text        not null,
  capture            bool        not null,
  card_bin           text        not null check (length(card_bin) <= 6),
  card_last4         text        not null check (length(card_last4) <= 4),
  authorized         int8        not null check (authorized between 0 and amount),
  captured           int8        not null check (captured between 0 and authorized),
  reference          text        not null,
  authorization_code text,
  decline_code       text,
  decline_message    text,
  refused_by         text,
  primary key (merchant_id, idempotency_key),
  check ((authorized = 0) = (decline_code is not null))
);

-- How a merchant's next calls are treated: DOWN or SLOW, for as many calls as `times_left` says, or until told otherwise
-- where that is null. It may fall below zero: a group of calls is counted at once.
create table sandbox_mode (
  merchant_id uuid primary key,
  mode        text not null check (mode in ('OK', 'DOWN', 'SLOW')),
  times_left  int8
) with (fillfactor = 50);
