"""The SQL of a search: which orders a text finds in the packed lines, how many those are, and which are on the page.

Skip a block only if its bits or its text prove that it holds no match, and open what the worker has not packed yet. A
total is always exact.

A text is matched by an order's own fields (number, external id, invoice number) or by its customer's e-mail. The kinds
of blocks are those of `LineKind` (1 orders, 2 customers, 3 changed e-mails, 4 renamed orders), the kinds of counters
those of `Counted` (1 short texts, 2 ends of e-mails). The pieces come first, then the statements, in the order in which
they are tried.
"""

# ruff: noqa: S608 - every statement is put together from constants of this module
from __future__ import annotations

from typing import Final

# Splits a block `b` into its numbered lines.
_LINES: Final = "cross join lateral string_to_table(b.texts, chr(10)) with ordinality as u(line, n)"

# Tests whether a block may contain the text: it does not if one of three bits of the text is missing. A row that an
# append wrote has no bits, and is opened.
_MAY_HOLD: Final = """
       (get_bit(b.grams, %(first_bit)s::int8) = 1) is not false
   and (get_bit(b.grams, %(middle_bit)s::int8) = 1) is not false
   and (get_bit(b.grams, %(last_bit)s::int8) = 1) is not false""".lstrip()

# Tests whether a block contains the text, by its bits first.
_HOLDS: Final = f"case when {_MAY_HOLD} then strpos(b.texts, %(folded)s) > 0 end"

# Tests whether a block may have orders of a date range.
IN_SPAN: Final = "and (b.oldest < %(to)s) is not false and (b.newest >= %(from)s) is not false"

# Tests whether the own fields of an order `o` contain the text.
_IN_OWN_FIELDS: Final = """
strpos(coalesce(o.names_folded, concat_ws(chr(31), lower(o.order_number collate "C"), lower(o.external_id collate "C"),
                                                   lower(o.invoice_number collate "C"))), %(folded)s) > 0""".lstrip()

# `uncounted`: the lines of the orders that the counters lack.
# `counters.are_exact`: whether counters and uncounted orders together give exact totals, which they do if few orders
# are uncounted and no e-mail and no invoice number has changed since the others were counted. They are not used if
# whole blocks are uncounted: few orders are read faster than counted one by one.
_UNCOUNTED: Final = """
uncounted as materialized (
  select u.id, u.line
    from search_block b cross join lateral unnest(b.ids, string_to_array(b.texts, chr(10))) as u(id, line)
   where b.merchant_id = %(merchant_id)s and b.kind = 1 and not b.packed limit %(lookups_max)s::int8 + 1),
counters as materialized (
  select not exists (
       select from search_block where merchant_id = %(merchant_id)s and kind in (3, 4) and not packed)
     and not exists (
       select from search_block
        where merchant_id = %(merchant_id)s and kind = 1 and not packed and grams is not null)
     and (select count(*) from uncounted) <= %(lookups_max)s as are_exact),
""".lstrip()

# Joins the e-mail of the customer of an uncounted order `f`.
_ITS_EMAIL: Final = """
 cross join lateral (
   select customer_id from payment_order
    where merchant_id = %(merchant_id)s and order_id between f.id and f.id order by order_id limit 1) o
 cross join lateral (
   select email_folded from customer where merchant_id = %(merchant_id)s and customer_id = o.customer_id limit 1) c"""

# `scanned`: the first matches among the next `scan.orders` orders of the list, as many as the page needs. The index of
# the list gives them in order, so that thousands need no lookup by id.
SCANNED: Final = f"""
scanned as materialized (
  select o.created_at, o.order_id
    from (select created_at, order_id, customer_id, order_number, external_id, invoice_number, names_folded
            from payment_order where merchant_id = %(merchant_id)s {{beyond}}
           order by created_at {{direction}}, order_id {{direction}} limit coalesce((select orders from scan), 0)) o
   where {_IN_OWN_FIELDS}
      or exists (
     select from (select email_folded from customer
                   where merchant_id = %(merchant_id)s and customer_id = o.customer_id limit 1) c
      where strpos(c.email_folded, %(folded)s) > 0)
   order by created_at {{direction}}, order_id {{direction}} limit %(offset)s::int8 + %(limit)s::int8),
""".lstrip()

# The total of a text of one or two letters: its counter plus the uncounted orders that contain it. The page is scanned
# for. If the matches were spread evenly, the page would end after `r.orders / 4` orders of the list. The scan is tried
# only if four times that number is at most `scanned_max`, and reads up to 32 times that number, at most `scanned_max`.
# The statement returns no row if the counters are not exact or the scan does not fill the page.
SHORT: Final = f"""
with {_UNCOUNTED}
matches as materialized (
  select coalesce((select orders from search_count
                    where merchant_id = %(merchant_id)s and kind = 1 and text = %(folded)s), 0)
       + (select count(*) from uncounted f{_ITS_EMAIL}
           where strpos(f.line, %(folded)s) > 0 or strpos(c.email_folded, %(folded)s) > 0) as total
   where (select are_exact from counters)),
scan as materialized (
  select case when r.orders <= %(scanned_max)s then least(8 * r.orders, %(scanned_max)s)::int8 else 0 end as orders
    from matches m cross join lateral (
      select 4 * (%(offset)s::float8 + %(limit)s::float8) * sum(n)::float8 / m.total as orders
        from tally where merchant_id = %(merchant_id)s and m.total >= %(offset)s::int8 + %(limit)s::int8) r),
{{scanned}}
counted as (
  select total from matches
   where total = 0 or (select count(*) from scanned) = %(offset)s::int8 + %(limit)s::int8)
"""
SHORT_PLACES: Final = "select created_at, order_id from scanned"

# `everywhere.found`: whether the lines of all orders contain the text, by what the lines of each full block share and
# by the lines of the few other blocks. It stops at the first block without the text. While there are renamed orders, it
# is false: some lines are old.
EVERYWHERE: Final = """
everywhere as materialized (
  select not exists (select from search_block where merchant_id = %(merchant_id)s and kind = 4) and not exists (
    select from search_block b
     where b.merchant_id = %(merchant_id)s and b.kind = 1 and (strpos(b.shared, %(folded)s) > 0) is not true
       and (b.shared is not null or exists (select from string_to_table(b.texts, chr(10)) as u(line)
                                 where (strpos(u.line, %(folded)s) > 0) is not true))) as found)
"""

# All matches of a text.
# `customers`: those whose e-mail contains it, from their lines (`by_line`), or from their rows if the e-mail changed.
# `blocks`: the blocks of orders that contain it, each with its number of matching lines. That number is known without
# splitting the block: all lines if what they share contains the text, else one, plus one for each piece between two
# occurrences that contains the end of a line.
# `renamed`: the orders whose invoice number has changed since their line was written, and whether their row matches.
# `by_fields`: the orders whose own fields contain it, from their lines (`by_own_line`), or from their rows if they are
# renamed. With renamed orders the numbers of lines are of no use: the matches are put together then (`any_by_fields`).
# `found`: these and the orders of `customers`, each once.
FINDS: Final = f"""
with changed as materialized (
  select distinct u.id, c.email_folded
    from search_block b cross join lateral unnest(b.ids) as u(id) cross join lateral (
      select email_folded from customer where merchant_id = %(merchant_id)s and customer_id = u.id limit 1) c
   where b.merchant_id = %(merchant_id)s and b.kind = 3),
by_line as materialized (
  select b.ids[u.n] as id from search_block b {_LINES}
   where b.merchant_id = %(merchant_id)s and b.kind = 2 and {_HOLDS}
     and strpos(u.line, %(folded)s) > 0),
customers as (
  select id from by_line where not exists (select from changed)
  union all
  (select id from by_line where exists (select from changed) except select id from changed)
  union all
  select id from changed where strpos(email_folded, %(folded)s) > 0),
blocks as materialized (
  select h.block, h.oldest, h.newest,
         case when h.in_all then h.lines
              else 1 + (select count(*) from unnest(h.pieces[2:cardinality(h.pieces) - 1]) as piece
                         where strpos(piece, chr(10)) > 0) end as hits
    from (select b.ctid as block, b.oldest, b.newest, cardinality(b.ids) as lines,
                 strpos(b.shared, %(folded)s) > 0 as in_all,
                 case when (strpos(b.shared, %(folded)s) > 0) is not true
                      then string_to_array(b.texts, %(folded)s) end as pieces
            from search_block b
           where b.merchant_id = %(merchant_id)s and b.kind = 1 and %(folded)s is not null {{in_span}}
             and {_MAY_HOLD} offset 0) h
   where h.in_all or cardinality(h.pieces) > 1),
renamed as materialized (
  select distinct o.created_at, o.order_id, {_IN_OWN_FIELDS} as found
    from search_block b cross join lateral unnest(b.ids) as u(id) cross join lateral (
      select * from payment_order
       where merchant_id = %(merchant_id)s and order_id between u.id and u.id order by order_id limit 1) o
   where b.merchant_id = %(merchant_id)s and b.kind = 4),
by_own_line as (
  select b.ats[u.n] as created_at, b.ids[u.n] as order_id
    from blocks h join search_block b on b.ctid = h.block
   {_LINES}
   where strpos(u.line, %(folded)s) > 0),
by_fields as (
  select created_at, order_id from by_own_line where not exists (select from renamed)
  union all
  (select created_at, order_id from by_own_line where exists (select from renamed)
   except select created_at, order_id from renamed)
  union all
  select created_at, order_id from renamed where found),
any_by_fields as materialized (
  select exists (select from blocks) or exists (select from renamed) as found),
found as materialized (
  select created_at, order_id from by_fields
  union all
  select created_at, order_id from payment_order
   where not (select a.found from any_by_fields a)
     and merchant_id = %(merchant_id)s and customer_id = any(array(select id from customers))
  union all
  (select created_at, order_id from payment_order
    where (select a.found from any_by_fields a)
      and merchant_id = %(merchant_id)s and customer_id = any(array(select id from customers))
   except select created_at, order_id from by_fields)),
"""

# If own fields match: the orders of `customers` (`by_email`), whether they are too many to look up, and, if they are
# not, those of them whose own fields do not match (`only_by_email`).
_ONLY_BY_EMAIL: Final = f"""
by_email as materialized (
  select order_id, created_at from payment_order
   where (select a.found from any_by_fields a)
     and merchant_id = %(merchant_id)s and customer_id = any(array(select id from customers))
   limit %(email_lookups_max)s::int8 + 1),
too_many as materialized (
  select count(*) > %(email_lookups_max)s or exists (select from renamed) as by_email from by_email),
only_by_email as materialized (
  select m.created_at, m.order_id from by_email m cross join lateral (
    select * from payment_order
     where merchant_id = %(merchant_id)s and order_id between m.order_id and m.order_id order by order_id limit 1) o
   where not (select t.by_email from too_many t) and ({_IN_OWN_FIELDS}) is not true),
""".lstrip()

# If no own field matches: the number of the orders of `customers`. With exact counters, it is the sum of the counters
# of the ends of e-mails that contain the text, of the uncounted orders of such e-mails, and of the orders of
# `local_customers`, whose e-mails contain it only before or across the end. Only the blocks of the last are opened.
_EMAIL_TOTAL: Final = f"""
local_customers as (
  select b.ids[u.n] as id from search_block b {_LINES}
   where not starts_with(%(folded)s, '@') and b.merchant_id = %(merchant_id)s and b.kind = 2
     and (get_bit(b.local_grams, %(first_bit)s::int8) = 1) is not false and {_HOLDS}
     and strpos(u.line, %(folded)s) > 0
     and (strpos(substr(u.line, nullif(strpos(u.line, '@'), 0)), %(folded)s) > 0) is not true),
email_matches as materialized (
  select case when (select are_exact from counters)
    then (select coalesce(sum(orders), 0)::int8 from search_count
           where merchant_id = %(merchant_id)s and kind = 2 and strpos(text, %(folded)s) > 0)
       + (select count(*) from uncounted f{_ITS_EMAIL}
           where strpos(substr(c.email_folded, nullif(strpos(c.email_folded, '@'), 0)), %(folded)s) > 0)
       + (select count(*) from payment_order
           where merchant_id = %(merchant_id)s and customer_id = any(array(select id from local_customers)))
    else (select count(*) from payment_order
           where merchant_id = %(merchant_id)s and customer_id = any(array(select id from customers))) end as total
   where not (select a.found from any_by_fields a)),
""".lstrip()

# The total of a search without filters. `found` is put together for it only if own fields match and too many orders
# match by e-mail. The page is scanned for among as many orders as would hold eight pages if the matches were spread
# evenly. If those are at least a quarter of the matches, or do not fill the page, all matches are sorted instead.
SEARCHED: Final = f"""
{_UNCOUNTED}{_ONLY_BY_EMAIL}{_EMAIL_TOTAL}matches as materialized (
  select case when not a.found then (select total from email_matches)
              when not t.by_email then (select sum(hits)::int8 from blocks) + (select count(*) from only_by_email)
              else (select count(*) from found) end as total from any_by_fields a cross join too_many t),
scan as materialized (
  select case when 4 * r.orders < m.total and (t.by_email or not a.found) then r.orders::int8 else 0 end as orders
    from matches m cross join any_by_fields a cross join too_many t cross join lateral (
      select 8 * (%(offset)s::float8 + %(limit)s::float8) * sum(n)::float8 / greatest(m.total, 1) as orders
        from tally where merchant_id = %(merchant_id)s) r),
{{scanned}}
page as materialized (select count(*) = %(offset)s::int8 + %(limit)s::int8 as is_full from scanned),
counted as (select total from matches)
"""

# The places of a search without filters: the scanned ones if they fill the page, else all matches. Matches by own
# fields, with few others by e-mail, are read only from the blocks that can hold a place of the page: the blocks up to
# the bound hold enough matches, and the others lie beyond it.
SEARCHED_PLACES: Final = f"""
select created_at, order_id from scanned where (select p.is_full from page p)
union all
select created_at, order_id from (
  select b.ats[u.n] as created_at, b.ids[u.n] as order_id
    from (select {{bound}} as at from (
            select {{last}} as at, sum(hits) over (order by {{last}} {{direction}}) as reached
              from blocks where {{beyond_cursor}}) r
           where r.reached >= %(offset)s::int8 + %(limit)s::int8) bound
    join blocks h on ({{first}} {{reaches}} bound.at) is not false
    join search_block b on b.ctid = h.block
   {_LINES}
   where not (select t.by_email from too_many t) and strpos(u.line, %(folded)s) > 0) by_fields
 where true {{beyond}}
union all
select created_at, order_id from only_by_email where true {{beyond}}
union all
select created_at, order_id from found
 where not (select p.is_full from page p) and (select t.by_email from too_many t) {{beyond}}
union all
select created_at, order_id from payment_order
 where not (select p.is_full from page p) and not (select a.found from any_by_fields a)
   and merchant_id = %(merchant_id)s and customer_id = any(array(select id from customers)) {{beyond}}"""

# The matches within a date range, the only filter that the lines can answer.
LISTED: Final = "listed as materialized (select created_at, order_id from found where true {in_range}),"

# The matches under filters that the lines cannot answer: few are looked up one by one, many are intersected with the
# list from its index. Combine sets only by UNION, EXCEPT and INTERSECT, here and above: the planner cannot estimate the
# number of matches, and a join or a NOT IN that is planned for a wrong number compares each row with each.
LISTED_FILTERED: Final = """
too_many as materialized (select count(*) > %(lookups_max)s as found from found),
listed as materialized (
  select created_at, order_id from found cross join lateral (
    select status, due_at, customer_id, last4s, currency, amount, method_types from payment_order o
     where o.merchant_id = %(merchant_id)s and o.order_id between found.order_id and found.order_id
     order by o.order_id limit 1) o
   where not (select t.found from too_many t) {in_range} {status} {due} {customer}
  union all
  (select created_at, order_id from payment_order
    where (select t.found from too_many t) and merchant_id = %(merchant_id)s {in_range} {status} {due} {customer}
   intersect select created_at, order_id from found)),"""

# The number of the matches under filters, and their places.
LISTED_TOTAL: Final = """
counted as (select count(*) as total from listed)
"""
LISTED_PLACES: Final = "select created_at, order_id from listed where true {beyond}"
