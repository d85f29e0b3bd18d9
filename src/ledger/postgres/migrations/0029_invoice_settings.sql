-- The settings exchangeRate and receiptDueDay of merchants, which begin as none and 5.
update merchant
   set settings = convert_to(regexp_replace(convert_from(settings, 'UTF8'), '\}$', ',"exchangeRate":null,"receiptDueDay":5}'), 'UTF8')
 where convert_from(settings, 'UTF8') not like '%"receiptDueDay":%';

-- The logo on a merchant's printed documents: a PNG. No row: the issuer's initials take its place.
create table fiscal_logo (
  merchant_id uuid        primary key,
  png         bytea       not null,
  set_at      timestamptz not null default clock_timestamp()
);
