-- Which move has the lease on a clock: it alone renews and ends the lease, also after it expired and another move took it. A
-- release that has no such column leaves it null, and its leases expire as before.
alter table merchant_clock add column holder uuid;
