-- What follows an event later: how far each reaction has read, and what is due when.

-- How far a reaction has come in a merchant's log. It is moved in the transaction that writes what it made of the events,
-- and whoever moves it holds its row: two workers never do the same stretch.
create table reaction_cursor (
  merchant_id uuid not null,
  reaction    text not null,
  position    int8 not null default 0,
  primary key (merchant_id, reaction)
) with (fillfactor = 50);

-- What is to be done about a stream, and when by its merchant's clock. A row becomes a job in the transaction that deletes
-- it. payment_id is all zeros where it is about no payment.
create table due_time (
  merchant_id uuid        not null,
  kind        text        not null,
  stream_id   uuid        not null,
  payment_id  uuid        not null,
  due_at      timestamptz not null,
  primary key (merchant_id, stream_id, kind, payment_id)
);
-- What is due by real time, over all merchants: no clock is ever behind it.
create index due_time_due on due_time (due_at);
-- What is due by the clock of one merchant.
create index due_time_of on due_time (merchant_id, due_at);

-- How far a sandbox merchant's clock is ahead of real time, in microseconds; a merchant without a row lives in real time.
-- It never goes back.
create table merchant_clock (
  merchant_id uuid primary key,
  ahead_us    int8 not null check (ahead_us >= 0)
) with (fillfactor = 50);

-- Since when everything that had been appended has been reacted to: moved on by every worker that finds nothing left.
create table reaction_progress (
  one      bool        primary key default true check (one),
  as_of    timestamptz not null
) with (fillfactor = 50);
insert into reaction_progress (as_of) values (now());
