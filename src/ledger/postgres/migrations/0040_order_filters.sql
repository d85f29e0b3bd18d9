-- What the list of orders filters by beside status, customer and due date.

-- amount: with the surcharge, in ten-thousandths of a minor unit. method_types: the sum of what the methods of its payments
-- count: 1 a card, 2 SPEI, 4 cash, and 8 more cash at Paycash. last4s: the last four digits of its payments' cards, each once,
-- in order, with commas; null without a card. All of them are null in rows of before, until `ledger rebuild`.
alter table payment_order add column currency text;
alter table payment_order add column amount int8;
alter table payment_order add column method_types int4;
alter table payment_order add column last4s text;

-- The list of 0004, with what it may leave out by these filters: a page then skips from the index alone.
drop index payment_order_created;
create index payment_order_created on payment_order (merchant_id, created_at, order_id)
  include (due_at, status, currency, amount, method_types);
-- The orders of one card, without those in flight: a payment by card then writes to it once. Few orders have several cards:
-- their texts are looked up first.
create index payment_order_cards on payment_order (merchant_id, last4s, created_at, order_id)
  where last4s is not null and call_deadline_at is null;
create index payment_order_several_cards on payment_order (merchant_id, last4s) where octet_length(last4s) > 4;
-- The orders that wait for `ledger rebuild`, none after it: without them a filter would leave out what it has to find.
create index payment_order_unfilled on payment_order (merchant_id) where currency is null;
