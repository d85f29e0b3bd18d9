"""The SQL of a search: what a text finds in the packed lines, how many orders that is, and where its page begins.

The rule a stranger would break: a block is passed over only where its bits or its text say that nothing in it can be found.
What nobody has packed or looked at yet is opened; no total is ever a guess.
"""

from __future__ import annotations

from typing import Final

# Everything that a search finds: by the customers' e-mails, where those whose line is outdated are asked themselves, and by
# the orders' own lines. A block is opened only where the text is somewhere in it.
FINDS: Final = """
with outdated as materialized (
  select distinct u.id, c.email_folded
    from search_block b cross join lateral unnest(b.ids) as u(id) cross join lateral (
      select email_folded from customer where merchant_id = %(merchant_id)s and customer_id = u.id limit 1) c
   where b.merchant_id = %(merchant_id)s and b.kind = 3),
introduced as materialized (
  select b.ids[u.n] as id from search_block b cross join lateral string_to_table(b.texts, chr(10)) with ordinality as u(line, n)
   where b.merchant_id = %(merchant_id)s and b.kind = 2 and {holds}
     and strpos(u.line, %(folded)s) > 0),
person as (
  select id from introduced where not exists (select from outdated)
  union all
  (select id from introduced where exists (select from outdated) except select id from outdated)
  union all
  select id from outdated where strpos(email_folded, %(folded)s) > 0),
named as materialized (
  select b.ats[u.n] as created_at, b.ids[u.n] as order_id
    from search_block b cross join lateral string_to_table(b.texts, chr(10)) with ordinality as u(line, n)
   where b.merchant_id = %(merchant_id)s and b.kind = 1 and {holds}
     and strpos(u.line, %(folded)s) > 0),
by_name as materialized (select exists (select from named) as found),
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

# Whether a block holds the text. Most blocks lack one of three triples of its bytes, and are not read. A shorter text has
# no triples and a block that nobody has packed no bits: what is not known is looked up.
HOLDS: Final = """
       case when (get_bit(b.grams, (select search_place((%(triples)s::bytea[])[1]))) = 1) is not false
             and (get_bit(b.grams, (select search_place((%(triples)s::bytea[])[2]))) = 1) is not false
             and (get_bit(b.grams, (select search_place((%(triples)s::bytea[])[3]))) = 1) is not false
            then strpos(b.texts, %(folded)s) > 0 end""".lstrip()

# How many that is, where nothing else was asked. What e-mails alone find is counted by the index of the customers and never
# put together. Its page is looked for among the newest orders, or the oldest, so many of them that eight pages would be there
# if they were spread evenly; where those are too many to be worth it, or too few hold a page, all that was found is sorted.
SEARCHED: Final = """
by_mail as materialized (select exists (select from person) as found),
mailed as materialized (
  select count(*) as total from payment_order
   where not (select n.found from by_name n)
     and merchant_id = %(merchant_id)s and customer_id = any(array(select id from person))),
tried as materialized (
  select case when 4 * o.places < m.total then o.places::int8 else 0 end as places
    from mailed m cross join lateral (
      select 8 * (%(offset)s::float8 + %(limit)s::float8) * sum(n)::float8 / greatest(m.total, 1) as places
        from tally where merchant_id = %(merchant_id)s) o),
near as materialized (
  select k.created_at, k.order_id
    from (select created_at, order_id from payment_order where merchant_id = %(merchant_id)s {beyond}
           order by created_at {direction}, order_id {direction} limit (select t.places from tried t)) k
   cross join lateral (
     select customer_id from payment_order where merchant_id = %(merchant_id)s and order_id = k.order_id limit 1) o
   cross join lateral (
     select email_folded from customer where merchant_id = %(merchant_id)s and customer_id = o.customer_id limit 1) c
   where strpos(c.email_folded, %(folded)s) > 0
   order by created_at {direction}, order_id {direction} limit %(offset)s::int8 + %(limit)s::int8),
enough as materialized (select count(*) = %(offset)s::int8 + %(limit)s::int8 as found from near),
counted as (
  select case when not n.found then (select total from mailed)
              when not p.found then (select count(*) from named)
              else (select count(*) from found) end as total from by_name n cross join by_mail p)
"""

# The same where more was asked: what was found is filtered first.
SEARCHED_FILTERED: Final = """
{listed}
counted as (select count(*) as total from listed)
"""

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
     where o.merchant_id = %(merchant_id)s and o.order_id = found.order_id limit 1) o
   where not (select m.found from many m) {in_range} {status} {due} {customer}
  union all
  (select created_at, order_id from payment_order
    where (select m.found from many m) and merchant_id = %(merchant_id)s {in_range} {status} {due} {customer}
   intersect select created_at, order_id from found)),"""

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

# The places of what a search found alone, of which only one of the four has any, and of what it found among others.
SEARCHED_PLACES: Final = """
select created_at, order_id from named where not (select p.found from by_mail p) {beyond}
union all
select created_at, order_id from found
 where (select n.found from by_name n) and (select p.found from by_mail p) {beyond}
union all
select created_at, order_id from near where not (select n.found from by_name n) and (select e.found from enough e)
union all
select created_at, order_id from payment_order
 where not (select n.found from by_name n) and not (select e.found from enough e)
   and merchant_id = %(merchant_id)s and customer_id = any(array(select id from person)) {beyond}"""
LISTED_PLACES: Final = "select created_at, order_id from listed where true {beyond}"
