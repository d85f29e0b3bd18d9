"""The SQL of a search: what a text finds in the packed lines, how many orders that is, and where its page begins.

The rule a stranger would break: a block is passed over only where its bits or its text say that nothing in it can be found.
What nobody has packed or looked at yet is opened; no total is ever a guess.

The kinds of blocks are those of `search_text` (1 orders, 2 customers, 3 changed), the kinds of counters those of `search_counts`
(1 short texts, 2 ends of e-mails). First the pieces, then what is put together of them, in the order in which it is tried.
"""

# ruff: noqa: S608 - every statement is put together from constants of this module
from __future__ import annotations

from typing import Final

# The lines of a block `b`, each with its number.
_LINES: Final = "cross join lateral string_to_table(b.texts, chr(10)) with ordinality as u(line, n)"

# Whether a block may hold the text. Most lack one of three bits of it, and are not read. A block that nobody has packed has no
# bits: what is not known is looked up.
_MAY_HOLD: Final = """
       (get_bit(b.grams, %(first_bit)s::int8) = 1) is not false
   and (get_bit(b.grams, %(middle_bit)s::int8) = 1) is not false
   and (get_bit(b.grams, %(last_bit)s::int8) = 1) is not false""".lstrip()
_HOLDS: Final = f"case when {_MAY_HOLD} then strpos(b.texts, %(folded)s) > 0 end"

# Whether a block may have orders of a date range.
IN_SPAN: Final = "and (b.oldest < %(to)s) is not false and (b.newest >= %(from)s) is not false"

# Whether an order's own fields have the text.
_IN_NAMES: Final = """
strpos(coalesce(o.names_folded, concat_ws(chr(31), lower(o.order_number collate "C"), lower(o.external_id collate "C"),
                                                   lower(o.invoice_number collate "C"))), %(folded)s) > 0""".lstrip()

# The orders that nobody has counted yet, and whether there are few of them and no e-mail has changed since the others were.
_UNCOUNTED: Final = """
fresh as materialized (
  select u.id, u.line from search_block b cross join lateral unnest(b.ids, string_to_array(b.texts, chr(10))) as u(id, line)
   where b.merchant_id = %(merchant_id)s and b.kind = 1 and not b.packed limit %(few)s::int8 + 1),
exact as materialized (
  select (select count(*) from fresh) <= %(few)s
     and not exists (select from search_block where merchant_id = %(merchant_id)s and kind = 3 and not packed) as counters),
""".lstrip()

# The e-mail of a fresh order's customer.
_FRESH_MAIL: Final = """
 cross join lateral (
   select customer_id from payment_order
    where merchant_id = %(merchant_id)s and order_id between f.id and f.id order by order_id limit 1) o
 cross join lateral (
   select email_folded from customer where merchant_id = %(merchant_id)s and customer_id = o.customer_id limit 1) c"""

# As many as a page needs of the orders with a text, of so many of the newest or the oldest that are tried, one by one, as the
# index of the list gives them: thousands are not looked up by their ids.
NEAR: Final = f"""
near as materialized (
  select o.created_at, o.order_id
    from (select created_at, order_id, customer_id, order_number, external_id, invoice_number, names_folded
            from payment_order where merchant_id = %(merchant_id)s {{beyond}}
           order by created_at {{direction}}, order_id {{direction}} limit coalesce((select t.places from tried t), 0)) o
   where {_IN_NAMES}
      or exists (
     select from (select email_folded from customer
                   where merchant_id = %(merchant_id)s and customer_id = o.customer_id limit 1) c
      where strpos(c.email_folded, %(folded)s) > 0)
   order by created_at {{direction}}, order_id {{direction}} limit %(offset)s::int8 + %(limit)s::int8),
""".lstrip()

# How many orders have a text of one or two letters: the counter says it, and the orders that are not counted yet. Its page
# is looked for among the newest orders, or the oldest, one by one until it is full: where a fourth of those that may be walked
# would hold it if they were spread evenly, and then among up to 32 times as many as would. Where the counters are not exact,
# or too few of those have it, this is no answer: it gives no row.
SHORT: Final = f"""
with {_UNCOUNTED}
found as materialized (
  select coalesce((select orders from search_count where merchant_id = %(merchant_id)s and kind = 1 and text = %(folded)s), 0)
       + (select count(*) from fresh f{_FRESH_MAIL}
           where strpos(f.line, %(folded)s) > 0 or strpos(c.email_folded, %(folded)s) > 0) as total
   where (select e.counters from exact e)),
tried as materialized (
  select case when p.places <= %(walked)s then least(8 * p.places, %(walked)s)::int8 else 0 end as places
    from found f cross join lateral (
      select 4 * (%(offset)s::float8 + %(limit)s::float8) * sum(n)::float8 / f.total as places
        from tally where merchant_id = %(merchant_id)s and f.total >= %(offset)s::int8 + %(limit)s::int8) p),
{{near}}
counted as (
  select total from found where total = 0 or (select count(*) from near) = %(offset)s::int8 + %(limit)s::int8)
"""
SHORT_PLACES: Final = "select created_at, order_id from near"

# Whether the text is in the lines of all orders: what the lines of a block share tells it, and the few that are not packed
# are opened. The first block without it ends this.
EVERYWHERE: Final = """
everywhere as materialized (
  select not exists (
    select from search_block b
     where b.merchant_id = %(merchant_id)s and b.kind = 1 and (strpos(b.shared, %(folded)s) > 0) is not true
       and (b.packed or exists (select from string_to_table(b.texts, chr(10)) as u(line)
                                 where (strpos(u.line, %(folded)s) > 0) is not true))) as found)
"""

# Everything that a search finds: by the customers' e-mails, where those whose line is outdated are asked themselves, and by
# the orders' own lines. A block is opened only where the text is somewhere in it. How many of its lines have it is known without:
# all, where it stands in what they begin with, and else one, and one more for each end of a line between two places where it is.
FINDS: Final = f"""
with outdated as materialized (
  select distinct u.id, c.email_folded
    from search_block b cross join lateral unnest(b.ids) as u(id) cross join lateral (
      select email_folded from customer where merchant_id = %(merchant_id)s and customer_id = u.id limit 1) c
   where b.merchant_id = %(merchant_id)s and b.kind = 3),
introduced as materialized (
  select b.ids[u.n] as id from search_block b {_LINES}
   where b.merchant_id = %(merchant_id)s and b.kind = 2 and {_HOLDS}
     and strpos(u.line, %(folded)s) > 0),
person as (
  select id from introduced where not exists (select from outdated)
  union all
  (select id from introduced where exists (select from outdated) except select id from outdated)
  union all
  select id from outdated where strpos(email_folded, %(folded)s) > 0),
holding as materialized (
  select h.block, h.oldest, h.newest,
         case when h.whole then h.lines
              else 1 + (select count(*) from unnest(h.pieces[2:cardinality(h.pieces) - 1]) as piece
                         where strpos(piece, chr(10)) > 0) end as hits
    from (select b.ctid as block, b.oldest, b.newest, cardinality(b.ids) as lines, strpos(b.shared, %(folded)s) > 0 as whole,
                 case when (strpos(b.shared, %(folded)s) > 0) is not true then string_to_array(b.texts, %(folded)s) end as pieces
            from search_block b
           where b.merchant_id = %(merchant_id)s and b.kind = 1 and %(folded)s is not null {{in_span}}
             and {_MAY_HOLD} offset 0) h
   where h.whole or cardinality(h.pieces) > 1),
named as (
  select b.ats[u.n] as created_at, b.ids[u.n] as order_id
    from holding h join search_block b on b.ctid = h.block
   {_LINES}
   where strpos(u.line, %(folded)s) > 0),
by_name as materialized (select exists (select from holding) as found),
found as materialized (
  select created_at, order_id from named
  union all
  select created_at, order_id from payment_order
   where not (select n.found from by_name n)
     and merchant_id = %(merchant_id)s and customer_id = any(array(select id from person))
  union all
  (select created_at, order_id from payment_order
    where (select n.found from by_name n)
      and merchant_id = %(merchant_id)s and customer_id = any(array(select id from person))
   except select created_at, order_id from named)),
"""

# The orders that e-mails find where some are found by their own fields, whether those are many, and which of them, if they are
# few, are not found by their own fields too.
_BESIDES: Final = f"""
mails as materialized (
  select order_id, created_at from payment_order
   where (select n.found from by_name n)
     and merchant_id = %(merchant_id)s and customer_id = any(array(select id from person))
   limit %(few_mails)s::int8 + 1),
many as materialized (select count(*) > %(few_mails)s as mails from mails),
besides as materialized (
  select m.created_at, m.order_id from mails m cross join lateral (
    select * from payment_order
     where merchant_id = %(merchant_id)s and order_id between m.order_id and m.order_id order by order_id limit 1) o
   where not (select m.mails from many m) and ({_IN_NAMES}) is not true),
""".lstrip()

# How many orders e-mails find where no order is found by its own fields: by the ends that the counters know, where those are exact,
# and by the index of the customers in whose e-mails the text begins before the end. Those alone are opened.
_MAILED: Final = f"""
elsewhere as (
  select b.ids[u.n] as id from search_block b {_LINES}
   where not starts_with(%(folded)s, '@') and b.merchant_id = %(merchant_id)s and b.kind = 2
     and (get_bit(b.local_grams, %(first_bit)s::int8) = 1) is not false and {_HOLDS}
     and strpos(u.line, %(folded)s) > 0
     and (strpos(substr(u.line, nullif(strpos(u.line, '@'), 0)), %(folded)s) > 0) is not true),
mailed as materialized (
  select case when (select e.counters from exact e)
    then (select coalesce(sum(orders), 0)::int8 from search_count
           where merchant_id = %(merchant_id)s and kind = 2 and strpos(text, %(folded)s) > 0)
       + (select count(*) from fresh f{_FRESH_MAIL}
           where strpos(substr(c.email_folded, nullif(strpos(c.email_folded, '@'), 0)), %(folded)s) > 0)
       + (select count(*) from payment_order
           where merchant_id = %(merchant_id)s and customer_id = any(array(select id from elsewhere)))
    else (select count(*) from payment_order
           where merchant_id = %(merchant_id)s and customer_id = any(array(select id from person))) end as total
   where not (select n.found from by_name n)),
""".lstrip()

# How many orders a search finds, where nothing else was asked; what is found is put together for that only where names find some
# and e-mails many. The page is looked for among the newest orders, or the oldest, so many of them that eight pages would be there if
# they were spread evenly; where those are too many to be worth it, or too few hold a page, all that was found is sorted.
SEARCHED: Final = f"""
{_UNCOUNTED}{_BESIDES}{_MAILED}searched as materialized (
  select case when not n.found then (select total from mailed)
              when not m.mails then (select sum(hits)::int8 from holding) + (select count(*) from besides)
              else (select count(*) from found) end as total from by_name n cross join many m),
tried as materialized (
  select case when 4 * o.places < s.total and (m.mails or not n.found) then o.places::int8 else 0 end as places
    from searched s cross join by_name n cross join many m cross join lateral (
      select 8 * (%(offset)s::float8 + %(limit)s::float8) * sum(n)::float8 / greatest(s.total, 1) as places
        from tally where merchant_id = %(merchant_id)s) o),
{{near}}
enough as materialized (select count(*) = %(offset)s::int8 + %(limit)s::int8 as found from near),
counted as (select total from searched)
"""

# The places of what a search found: those nearby, or else all. What names find, and few e-mails besides, is opened only in the
# blocks that may have a place of the page: there are enough in those that lie before the bound.
SEARCHED_PLACES: Final = f"""
select created_at, order_id from near where (select e.found from enough e)
union all
select created_at, order_id from (
  select b.ats[u.n] as created_at, b.ids[u.n] as order_id
    from (select {{bound}} as at from (
            select {{last}} as at, sum(hits) over (order by {{last}} {{direction}}) as reached from holding where {{beyond_cursor}}) r
           where r.reached >= %(offset)s::int8 + %(limit)s::int8) bound
    join holding h on ({{first}} {{reaches}} bound.at) is not false
    join search_block b on b.ctid = h.block
   {_LINES}
   where not (select m.mails from many m) and strpos(u.line, %(folded)s) > 0) named
 where true {{beyond}}
union all
select created_at, order_id from besides where true {{beyond}}
union all
select created_at, order_id from found
 where not (select e.found from enough e) and (select m.mails from many m) {{beyond}}
union all
select created_at, order_id from payment_order
 where not (select e.found from enough e) and not (select n.found from by_name n)
   and merchant_id = %(merchant_id)s and customer_id = any(array(select id from person)) {{beyond}}"""

# What was found, within a date range; no other filter is answered by what the lines say.
LISTED: Final = "listed as materialized (select created_at, order_id from found where true {in_range}),"

# What was found, filtered by what the lines do not say: few orders one by one, many by going through all from an index.
# Sets are put together and cut by UNION, EXCEPT and INTERSECT alone, here and above: nobody can estimate what a text finds,
# and a join or a NOT IN that was planned for the wrong number compares each with each.
LISTED_FILTERED: Final = """
many as materialized (select count(*) > %(few)s as found from found),
listed as materialized (
  select created_at, order_id from found cross join lateral (
    select status, due_at, customer_id from payment_order o
     where o.merchant_id = %(merchant_id)s and o.order_id between found.order_id and found.order_id
     order by o.order_id limit 1) o
   where not (select m.found from many m) {in_range} {status} {due} {customer}
  union all
  (select created_at, order_id from payment_order
    where (select m.found from many m) and merchant_id = %(merchant_id)s {in_range} {status} {due} {customer}
   intersect select created_at, order_id from found)),"""

# How many that is.
LISTED_TOTAL: Final = """
counted as (select count(*) as total from listed)
"""
LISTED_PLACES: Final = "select created_at, order_id from listed where true {beyond}"
