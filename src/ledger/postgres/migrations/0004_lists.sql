-- What the list of orders filters and searches by.

-- Where a customer was derived from, and its e-mail in the form in which searches compare it.
alter table customer add column source_id uuid;
alter table customer add column email_folded text;
create index customer_source on customer (merchant_id, source_id) where source_id is not null;

-- The lists of 0002, with what they may leave out by the due date: a page then skips from the index alone.
drop index payment_order_created;
drop index payment_order_status;
create index payment_order_created on payment_order (merchant_id, created_at, order_id) include (due_at);
create index payment_order_status on payment_order (merchant_id, status, created_at, order_id) include (due_at);
-- The orders of one customer, and how many they are under the other filters.
create index payment_order_customer on payment_order (merchant_id, customer_id, created_at, order_id) include (status, due_at);
-- How many orders a list without the overdue ones leaves out.
create index payment_order_due on payment_order (merchant_id, due_at) include (created_at, status) where due_at is not null;

-- The texts of many orders (kind 1) or customers (2) in one row: ids[n], ats[n] and line n of texts belong together. An
-- append adds one row, whatever it writes; the worker packs them. Kind 3 names customers whose line in kind 2 is outdated.
create table search_block (
  merchant_id uuid          not null,
  kind        int4          not null,
  first_id    uuid          not null,
  packed      bool          not null default false,
  ids         uuid[]        not null,
  ats         timestamptz[] not null,
  texts       text          not null
) with (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.05);
alter table search_block alter column texts set storage external;
create index search_block_place on search_block (merchant_id, kind, first_id);
-- What the worker has to pack or to bring up to date, over all merchants: a handful of rows of each.
create index search_block_unpacked on search_block (merchant_id, kind) where not packed;

-- Every line by itself, as the log says it: the e-mail of a customer whose line is outdated is that of its row.
create view search_line as
select b.merchant_id, b.kind, u.id, u.at, u.text
  from search_block b cross join lateral unnest(b.ids, b.ats, string_to_array(b.texts, chr(10))) as u(id, at, text)
 where b.kind = 1 or (b.kind = 2 and not exists (
   select 1 from search_block o where o.merchant_id = b.merchant_id and o.kind = 3 and u.id = any(o.ids)))
union all
select distinct c.merchant_id, 2, c.customer_id, null::timestamptz, c.email_folded
  from search_block o cross join lateral unnest(o.ids) as u(id)
  join customer c on c.merchant_id = o.merchant_id and c.customer_id = u.id
 where o.kind = 3 and c.email_folded is not null;

-- What stood here before. lower() is what the program's folding does for the letters that ids and addresses consist of.
update customer set email_folded = lower(email) where email is not null;
insert into search_block (merchant_id, kind, first_id, ids, ats, texts)
select merchant_id, 2, (array_agg(customer_id))[1], array_agg(customer_id), array_agg(null::timestamptz),
       string_agg(email_folded, chr(10))
  from (select *, (row_number() over (partition by merchant_id) - 1) / 64 as block from customer
         where email_folded is not null) c
 group by merchant_id, block;
insert into search_block (merchant_id, kind, first_id, ids, ats, texts)
select merchant_id, 1, (array_agg(order_id))[1], array_agg(order_id), array_agg(created_at),
       string_agg(lower(order_number || chr(31) || external_id || chr(31) || coalesce(invoice_number, '')), chr(10))
  from (select *, (row_number() over (partition by merchant_id order by created_at) - 1) / 64 as block from payment_order) o
 group by merchant_id, block;
