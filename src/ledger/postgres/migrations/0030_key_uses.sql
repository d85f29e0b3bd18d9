-- When each API key was last used, in real time. Processes write it about once a minute, outside of requests. It is no part
-- of the log: a key without a row has not been used since this table exists.
create table api_key_use (
  key_id       uuid        primary key,
  last_used_at timestamptz not null
);
