-- Customers as a resource of their own: what a customer's document has beyond an order's, and the list of customers.

-- extras: the last members of the document (preferences, metadata), null where they are what an order's customer has.
-- erased: the list leaves the customer out. text_folded: what a search reads, null once the customer is erased.
alter table customer add column extras bytea;
alter table customer add column erased bool not null default false;
alter table customer add column text_folded text;
update customer c set erased = true from data_key d
 where d.merchant_id = c.merchant_id and d.customer_id = c.customer_id and d.destroyed_at is not null;

-- What a search reads of a customer with this document: null once the customer is erased. lower() folds as the service
-- does, except for a few letters outside ASCII: those rows are exact after the next change.
create function customer_text(external_id text, email text, doc bytea) returns text language sql stable as $$
  select lower(concat_ws(chr(31), external_id,
           trim(both from concat_ws(' ', d ->> 'firstName', d ->> 'lastName')), coalesce(email, ''),
           coalesce(d ->> 'phoneNumber', '')))
    from (select convert_from(doc, 'UTF8')::jsonb as d) as document where (d ->> 'active')::bool
$$;
update customer set text_folded = customer_text(external_id, email, doc) where not erased;

-- The list of customers, newest first: service ids are in the order of creation. With erased, a page skips from the index.
create unique index customer_listed on customer (merchant_id, customer_id) include (erased);
alter table customer drop constraint customer_pkey;
alter table customer add constraint customer_pkey primary key using index customer_listed;
-- Customers by e-mail, whatever its case.
create index customer_email on customer (merchant_id, email_folded, customer_id) where email_folded is not null;

-- Samples of these columns would stay in pg_statistic after an erasure. No plan needs them.
alter table customer alter column email set statistics 0, alter column email_folded set statistics 0,
  alter column text_folded set statistics 0, alter column doc set statistics 0, alter column extras set statistics 0;

-- A process of an older release does not write the new columns: its rows are completed here, from the document. It
-- leaves text_folded as it was, where a newer process changes it together with the fields that it is made of.
create function complete_customer() returns trigger language plpgsql as $$
declare
  text_now text := customer_text(new.external_id, new.email, new.doc);
begin
  if tg_op = 'UPDATE' and text_now is not distinct from customer_text(old.external_id, old.email, old.doc) then
    return new;
  end if;
  new.text_folded := text_now;
  new.erased := text_now is null;
  if new.erased then
    new.extras := null;
  end if;
  return new;
end
$$;
create trigger complete_inserted before insert on customer for each row
  when (new.text_folded is null and not new.erased) execute function complete_customer();
create trigger complete_updated before update on customer for each row
  when (new.text_folded is not distinct from old.text_folded and new.doc is distinct from old.doc)
  execute function complete_customer();

-- How many customers a merchant has, without the erased ones. Changed in the commit that creates or erases a customer;
-- the merchant's head is locked then, so no other commit waits for a counter.
create table customer_count (
  merchant_id uuid primary key,
  n           int8 not null
) with (fillfactor = 50);
insert into customer_count (merchant_id, n) select merchant_id, count(*) from customer where not erased group by 1;
create function count_customers() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' then
    update customer_count set n = n - 1 where merchant_id = new.merchant_id;
  else
    insert into customer_count as t (merchant_id, n)
    select merchant_id, count(*) from added where not erased group by merchant_id
    on conflict (merchant_id) do update set n = t.n + excluded.n;
  end if;
  return null;
end
$$;
create trigger count_inserted after insert on customer referencing new table as added
  for each statement execute function count_customers();
create trigger count_erased after update on customer for each row
  when (new.erased and not old.erased) execute function count_customers();
