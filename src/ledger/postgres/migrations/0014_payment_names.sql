-- By what else a payment is known than by its order: its own id, the references that payers send money to, the processor's
-- names for what it did, the keys of its refunds. A message from a processor that does not say its order finds it here. Written
-- by a reaction, so it may be behind the log for a moment; a name may belong to payments of two processors.
create table payment_name (
  merchant_id uuid not null,
  name        text not null,
  order_id    uuid not null,
  payment_id  uuid not null,
  primary key (merchant_id, name, payment_id)
);
