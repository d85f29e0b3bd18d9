-- How often API keys have asked lately, where several processes serve: when each of a key's two buckets is full again, in
-- seconds since 1970 by this server's clock, and what the last statement asked and was given. Lost in a crash, and nothing is
-- lost with it. Half a page of room keeps every update in place.
create unlogged table request_rate (
  merchant_id    uuid   not null,
  key_id         uuid   not null,
  asked          int4   not null,
  per_minute     int4   not null,
  per_second     int4   not null,
  asked_at       float8 not null,
  admitted       int4   not null,
  minute_full_at float8 not null,
  second_full_at float8 not null,
  primary key (merchant_id, key_id)
) with (fillfactor = 50);

-- A merchant that never changed its limits has none of its own: the installation's are what its keys may.
update merchant m
   set settings = convert_to(replace(convert_from(settings, 'UTF8'), '"requestsPerMinute":100,', '"requestsPerMinute":null,'), 'UTF8')
 where not exists (
   select from event e where e.merchant_id = m.merchant_id and e.stream_id = m.merchant_id
      and e.topic = 'merchant-settings-changed.v1' and convert_from(e.data, 'UTF8') like '%"requestsPerMinute":%');
update merchant m
   set settings = convert_to(replace(convert_from(settings, 'UTF8'), '"requestsPerSecond":10,', '"requestsPerSecond":null,'), 'UTF8')
 where not exists (
   select from event e where e.merchant_id = m.merchant_id and e.stream_id = m.merchant_id
      and e.topic = 'merchant-settings-changed.v1' and convert_from(e.data, 'UTF8') like '%"requestsPerSecond":%');
