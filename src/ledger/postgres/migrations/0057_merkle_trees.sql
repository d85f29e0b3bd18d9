-- The Merkle trees over merchants' logs (see ledger/tlog). The worker extends them behind the writers.

-- How far a merchant's log is sealed. edge: the hashes of the subtrees of all its entries, the largest first, 32 bytes for
-- each bit of size. The worker that extends a tree locks its row.
create table log_tree (
  merchant_id uuid  primary key,
  size        int8  not null default 0,
  edge        bytea not null default ''
) with (fillfactor = 50);

-- The full tiles: 256 hashes of 32 bytes, and the root of these, which is a hash of the level above. Rows are inserted and
-- never touched again.
create table log_tile (
  merchant_id uuid  not null,
  level       int4  not null,
  number      int8  not null,
  hashes      bytea not null,
  root        bytea not null,
  primary key (merchant_id, level, number)
);
-- Hashes cannot be compressed.
alter table log_tile alter column hashes set storage external;

-- The signed checkpoints, one for each size that a tree had at the end of a round. signed_by: the keys that signed note.
create table log_checkpoint (
  merchant_id uuid        not null,
  size        int8        not null,
  note        text        not null,
  signed_by   text        not null,
  sealed_at   timestamptz not null default clock_timestamp(),
  primary key (merchant_id, size)
);
