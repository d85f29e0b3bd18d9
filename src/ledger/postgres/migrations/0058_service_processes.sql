-- The processes of the services that run on this database: each registers itself and updates its row every few seconds. Times
-- are by this server's clock. A row whose process was killed stays for a day.
create table service_process (
  process_id    uuid        not null primary key,
  host          text        not null,
  role          text        not null,
  release       text        not null,
  files         text        not null,  -- where it stores the files of documents; empty if it stamps none
  clock_ahead_s float8      not null,  -- how far its machine's clock is ahead of this server's
  started_at    timestamptz not null,
  seen_at       timestamptz not null
);
