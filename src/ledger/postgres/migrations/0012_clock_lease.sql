-- Who moves a merchant's clock holds it: until then (real time) nobody else moves it, and what becomes due waits for that hand.
alter table merchant_clock add column moving_until timestamptz;
