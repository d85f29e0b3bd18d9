-- Which master key this database belongs to: a fingerprint that is derived from the key and reveals nothing about it.
-- The first start records it. A start under another key stops before it writes anything under that key.
create table master_key_fingerprint (
  only_row    bool        primary key default true check (only_row),
  fingerprint text        not null,
  recorded_at timestamptz not null default clock_timestamp()
);
