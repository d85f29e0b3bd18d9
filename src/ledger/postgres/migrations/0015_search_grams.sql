-- The bit for three letters that follow each other. Several triples share a bit. Both sides of a comparison are made here.
create function search_place(triple text) returns int4 language sql immutable parallel safe as $$
  select ((ascii(triple)::int8 * 6151 + ascii(substr(triple, 2)) * 389 + ascii(substr(triple, 3))) % 8192)::int4
$$;

-- The bits of every triple in some lines: lines without a triple's bit do not hold it, lines with it may.
create function search_grams(lines text[]) returns bit(8192) language sql immutable parallel safe as $$
  select coalesce(bit_or(set_bit(repeat('0', 8192)::bit(8192), search_place(t.triple), 1)), repeat('0', 8192)::bit(8192))
    from (select distinct substr(u.line, i, 3) as triple
            from unnest(lines) as u(line) cross join lateral generate_series(1, length(u.line) - 2) as i) t
$$;

-- Of all lines of a packed block; null where nobody has looked: in the rows of appends.
alter table search_block add column grams bit(8192);
-- The worker packs what stood here before once more, and looks.
update search_block set packed = false where kind in (1, 2);
