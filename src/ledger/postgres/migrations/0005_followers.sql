-- What readers need who follow a log with the `eventsourcing` library (see ledger/recorder).

-- Until when somebody follows this merchant's log: only then does a writer send a notification after its commit. A follower
-- moves it on while it lives.
alter table merchant_head add column followed_until timestamptz;

-- The library also begins streams at version 0; the ledger's own begin at 1.
alter table event drop constraint event_version_check;
alter table event add constraint event_version_check check (version >= 0);

-- How far a projection has come in the log of an application: written in the transaction that writes the projection's rows.
create table tracking (
  merchant_id uuid not null,
  projection  text not null,
  application text not null,
  position    int8 not null,
  primary key (merchant_id, projection, application)
) with (fillfactor = 50);

-- States of the library's aggregates, kept to spare reading long streams. Not part of the log; may be deleted at any time.
create table snapshot (
  merchant_id uuid  not null,
  application text  not null,
  stream_id   uuid  not null,
  version     int4  not null,
  topic       text  not null,
  state       bytea not null,
  primary key (merchant_id, application, stream_id, version)
);
