-- The lines of orders whose invoice number has changed show the fields of now before they are replaced, as those of
-- customers with another e-mail do: a comparison with the log finds them equal at every moment.
create or replace view search_line as
select b.merchant_id, b.kind, u.id, u.at, case
         when b.kind = 1 and exists (
           select 1 from search_block r where r.merchant_id = b.merchant_id and r.kind = 4 and u.id = any(r.ids))
         then (select coalesce(o.names_folded, lower(o.order_number collate "C") || chr(31) ||
                 lower(o.external_id collate "C") || chr(31) || lower(coalesce(o.invoice_number, '') collate "C"))
                 from payment_order o where o.merchant_id = b.merchant_id and o.order_id = u.id)
         else u.text end collate "default" as text
  from search_block b cross join lateral unnest(b.ids, b.ats, string_to_array(b.texts, chr(10))) as u(id, at, text)
 where b.kind = 1 or (b.kind = 2 and not exists (
   select 1 from search_block o where o.merchant_id = b.merchant_id and o.kind = 3 and u.id = any(o.ids)))
union all
select distinct c.merchant_id, 2, c.customer_id, null::timestamptz, c.email_folded
  from search_block o cross join lateral unnest(o.ids) as u(id)
  join customer c on c.merchant_id = o.merchant_id and c.customer_id = u.id
 where o.kind = 3 and c.email_folded is not null;
