-- What the lines of a block have in common: the beginnings that each of their three fields shares, parted like the fields.
-- Null where nobody has looked: in the rows of appends. A text that stands in it stands in every line.
alter table search_block add column shared text;
-- The worker packs what stood here before once more, and looks.
update search_block set packed = false where kind = 1;
