-- The rest of the sandbox processor's book. Like the charges: the ledger never reads it, it asks the processor.

-- A capture, a void and a refund name what they are about by the processor's own reference.
create index sandbox_charge_reference on sandbox_charge (merchant_id, reference);

-- One row per call other than a plain authorisation, with the answer that it was given: written in the transaction that does
-- what the call asks for. `reference` is what it is about: a charge, a payer's authentication, a deposit reference. `moved`
-- is what the call really took or gave back, minor units times ten thousand; sums over it are the only totals.
create table sandbox_call (
  merchant_id     uuid        not null,
  kind            text        not null,
  idempotency_key text        not null,
  reference       text        not null,
  booked_at       timestamptz not null default now(),
  moved           int8        not null check (moved >= 0),
  accepted        bool        not null,
  answer          text        not null,
  primary key (merchant_id, kind, idempotency_key)
);
create index sandbox_call_reference on sandbox_call (merchant_id, reference, kind) where accepted;

-- A payer's authentication: 3-D Secure, or a redirect. The card itself is not kept, only what may be printed of it.
create table sandbox_authentication (
  transaction_id  text        primary key,
  reference_id    text        not null unique,
  access_token    text        not null,
  merchant_id     uuid        not null,
  idempotency_key text        not null,
  order_id        uuid,
  payment_id      uuid,
  opened_at       timestamptz not null default now(),
  amount          int8        not null check (amount > 0),
  currency        text        not null,
  card_bin        text        not null check (length(card_bin) <= 6),
  card_last4      text        not null check (length(card_last4) <= 4),
  stage           text        not null check (stage in ('DEVICE_DATA', 'CHALLENGE', 'REDIRECT', 'ENDED')),
  challenges      bool        not null,
  device_data_at  timestamptz,
  accepted        bool,
  unique (merchant_id, idempotency_key)
);

-- Where money can be sent to. A CLABE and a cash reference belong to one payment of one merchant, for ever.
create sequence sandbox_account_number;
create table sandbox_reference (
  processor_reference text        primary key,
  merchant_id         uuid        not null,
  idempotency_key     text        not null,
  order_id            uuid,
  payment_id          uuid,
  issued_at           timestamptz not null default now(),
  method              text        not null,
  reference           text        not null unique,
  clabe               text        unique check (length(clabe) = 18),
  convenio            text,
  amount              int8        not null check (amount > 0),
  currency            text        not null,
  expires_at          timestamptz not null,
  unique (merchant_id, idempotency_key)
);

-- What the processor will tell of its own accord, once the merchant's clock shows `due_at`, until it was taken in.
create table sandbox_message (
  merchant_id  uuid        not null,
  message_id   text        not null,
  due_at       timestamptz not null,
  body         text        not null,
  delivered_at timestamptz,
  primary key (merchant_id, message_id)
);
create index sandbox_message_waiting on sandbox_message (merchant_id, due_at) where delivered_at is null;
