-- The bits of a packed block are made from bytes instead of letters: a third of the processor time, and as many bits. Whoever
-- searches looks at three bytes of the text, which follow each other in the block wherever the text stands in it.
alter table search_block drop column grams;
drop function search_grams(text[]);
drop function search_place(text);

-- The bit for three bytes that follow each other. Several triples share a bit. Both sides of a comparison are made here.
create function search_place(triple bytea) returns int4 language sql immutable parallel safe as $$
  select (get_byte(triple, 0) * 6151 + get_byte(triple, 1) * 389 + get_byte(triple, 2)) & 8191
$$;

-- The 8,192 bits of every triple in some lines: lines without a triple's bit do not hold it, lines with it may.
create function search_grams(lines text) returns bytea language plpgsql immutable parallel safe as $$
declare
  bytes bytea := convert_to(lines, 'UTF8');
  grams bytea := decode(repeat('00', 1024), 'hex');
  place int4;
begin
  for i in 0 .. length(bytes) - 3 loop
    place := (get_byte(bytes, i) * 6151 + get_byte(bytes, i + 1) * 389 + get_byte(bytes, i + 2)) & 8191;  -- search_place
    if get_bit(grams, place) = 0 then
      grams := set_bit(grams, place, 1);
    end if;
  end loop;
  return grams;
end
$$;

-- Of all lines of a packed block; null where nobody has looked: in the rows of appends.
alter table search_block add column grams bytea;
-- The worker packs what stood here before once more, and looks.
update search_block set packed = false where kind in (1, 2);
