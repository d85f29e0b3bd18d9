-- Events whose content `ledger archive` has moved into files (see ledger/journal/event_archive.py). Their rows stay in event.

-- How far a merchant's log was looked through: what rested up to this position is archived.
create table archived_log (
  merchant_id uuid primary key,
  position    int8 not null
);

-- The files, with the number and the bytes of the events in each. file_id: the beginning of sha256, and the file's name.
create table archived_file (
  merchant_id uuid        not null,
  file_id     bytea       not null,
  sha256      bytea       not null,
  events      int4        not null,
  bytes       int8        not null,
  archived_at timestamptz not null default clock_timestamp(),
  primary key (merchant_id, file_id)
);
