-- A merchant's products, as they are answered (doc, a JSON object), and what they are found by.

-- id is the merchant's id of the product, which is a claim as well. folded is what a search compares: id, name, sku and
-- external id.
create table product (
  merchant_id uuid        not null,
  product_id  uuid        not null,
  version     int4        not null,
  id          text        collate "C" not null,
  status      text        collate "C" not null,
  created_at  timestamptz not null,
  folded      text        collate "C" not null,
  doc         bytea       not null,
  primary key (merchant_id, product_id)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- A product by the merchant's id.
create unique index product_by_id on product (merchant_id, id);
-- The list, newest first, and its totals.
create index product_created on product (merchant_id, created_at, product_id) include (status);
