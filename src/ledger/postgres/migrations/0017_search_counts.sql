-- How many orders a text of one or two letters finds, and the end of an e-mail: counted when lines are packed.

-- Kind 1: a text of one or two letters in any of the four fields; kind 2: an e-mail from its @ on. Of the orders in packed
-- blocks, and of their customers' e-mails as the packed lines of the customers say them. No row stands at nothing.
create table search_count (
  merchant_id uuid not null,
  kind        int4 not null,
  text        text collate "C" not null,
  orders      int8 not null,
  primary key (merchant_id, kind, text)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- The bits of a packed block say too which bytes, alone and in twos, stand in it, and are made by the program. A worker of the
-- release before makes fewer and does not count: it is told to come later, and goes on with everything else. What an older
-- search reads by search_place stays right.
create or replace function search_grams(lines text) returns bytea language plpgsql as $$
begin
  raise exception 'lines are packed by a newer release' using errcode = 'cannot_connect_now';
end
$$;

-- The same of what stands in e-mails before their @: what begins there is not counted.
alter table search_block add column local_grams bytea;

-- When the oldest and the newest order of a packed block were created; a date range passes over the others.
alter table search_block add column oldest timestamptz, add column newest timestamptz;

-- The worker packs what stood here before once more, and counts it.
update search_block set packed = false, grams = null where kind in (1, 2);

-- The three fields of an order as searches compare them, where lower() would not give the same: those that are not ASCII.
alter table payment_order add column names_folded text;
update payment_order o set names_folded = l.text
  from search_line l
 where l.kind = 1 and l.merchant_id = o.merchant_id and l.id = o.order_id
   and octet_length(concat(o.order_number, o.external_id, o.invoice_number))
    <> length(concat(o.order_number, o.external_id, o.invoice_number));
