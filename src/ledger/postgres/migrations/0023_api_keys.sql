-- The key that took the place of another, which then expires.
alter table api_key add column replaced_by uuid;

-- Every process that serves requests caches keys and settings. The merchant's row is written with every change of either, so
-- the change is announced in its own commit. A process that misses the notification drops what it cached after some seconds.
create function notify_merchant_change() returns trigger language plpgsql as $$
begin
  perform pg_notify('ledger_merchant', new.merchant_id::text);
  return null;
end
$$;
create trigger merchant_change after update on merchant for each row execute function notify_merchant_change();
