-- Until when the processor's records have been compared with the log: one worker at a time moves it on, once a day.
create table reconciliation (
  one            bool        primary key default true check (one),
  compared_until timestamptz not null
);
insert into reconciliation (compared_until) values (now());
