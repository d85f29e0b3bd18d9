-- What the worker has to pack or to bring up to date. The full blocks of a merchant whose texts are not counted stay unpacked
-- and have their bits: they wait for the day on which the merchant has enough orders to be counted.
create index search_block_loose on search_block (merchant_id, kind) where not packed and grams is null;
