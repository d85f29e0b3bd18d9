-- Customers as a resource of their own: what a customer's document has beyond an order's, and the list of customers.

-- extras: the last members of the document (preferences, metadata), null where they are what an order's customer has.
-- erased: the list leaves the customer out. text_folded: what a search reads, null once the customer is erased.
alter table customer add column extras bytea;
alter table customer add column erased bool not null default false;
alter table customer add column text_folded text;
update customer c set erased = true from data_key d
 where d.merchant_id = c.merchant_id and d.customer_id = c.customer_id and d.destroyed_at is not null;
-- lower() folds as the service does, except for a few letters outside ASCII: those rows are exact after the next change.
update customer set text_folded = lower(concat_ws(chr(31), external_id,
         trim(both from concat_ws(' ', d ->> 'firstName', d ->> 'lastName')), coalesce(email, ''),
         coalesce(d ->> 'phoneNumber', '')))
  from (select merchant_id as m, customer_id as i, convert_from(doc, 'UTF8')::jsonb as d from customer) documents
 where m = merchant_id and i = customer_id and not erased;

-- The list of customers, newest first: service ids are in the order of creation. With erased, a page skips from the index.
create unique index customer_listed on customer (merchant_id, customer_id) include (erased);
alter table customer drop constraint customer_pkey;
alter table customer add constraint customer_pkey primary key using index customer_listed;
-- Customers by e-mail, whatever its case.
create index customer_email on customer (merchant_id, email_folded, customer_id) where email_folded is not null;

-- Samples of these columns would stay in pg_statistic after an erasure. No plan needs them.
alter table customer alter column email set statistics 0, alter column email_folded set statistics 0,
  alter column text_folded set statistics 0, alter column doc set statistics 0, alter column extras set statistics 0;

-- How many customers a merchant has, without the erased ones. Moved by every batch, in place, like tally.
create table customer_count (
  merchant_id uuid primary key,
  n           int8 not null
) with (fillfactor = 50);
insert into customer_count (merchant_id, n) select merchant_id, count(*) from customer where not erased group by 1;
