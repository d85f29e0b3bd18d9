-- The commands of operators that change something without an event: who ran them, when, on what and why. A row is written
-- before the command changes anything.
create table operator_command (
  command_id uuid        not null primary key,
  at         timestamptz not null default now(),
  operator   text        not null,  -- the account and its host, or the name that the operator gave
  command    text        not null,  -- without `ledger`, such as `jobs retry`
  subject    text        not null,  -- what it was about, such as a merchant's id; empty for the installation
  reason     text
);
create index operator_command_at on operator_command (at);
