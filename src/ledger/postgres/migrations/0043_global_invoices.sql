-- Global invoices: one document for the orders without fiscal data of a period. doc is the JSON object as it is answered,
-- the amounts are in minor units.
create table global_invoice (
  merchant_id       uuid        not null,
  global_invoice_id uuid        not null,
  version           int4        not null,
  status            text        collate "C" not null,
  issued_at         timestamptz not null,
  created_at        timestamptz not null,
  total             int8        not null,
  iva               int8        not null,
  ieps              int8        not null,
  iva_withheld      int8        not null,
  isr_withheld      int8        not null,
  doc               bytea       not null,
  primary key (merchant_id, global_invoice_id)
) with (fillfactor = 80);
-- The list, newest first, and its totals.
create index global_invoice_created on global_invoice (merchant_id, created_at, global_invoice_id);
-- A month's documents.
create index global_invoice_issued on global_invoice (merchant_id, issued_at);

-- The orders of a global invoice. is_stated is false for those of one that was refused.
create table global_invoice_order (
  merchant_id       uuid        not null,
  order_id          uuid        not null,
  global_invoice_id uuid        not null,
  included_at       timestamptz not null,
  is_stated         int4        not null,
  primary key (merchant_id, order_id, global_invoice_id)
) with (fillfactor = 80);
-- The orders whose refunds a month's report names.
create index global_invoice_order_included on global_invoice_order (merchant_id, included_at);
