-- The setting cardEntry of merchants, which begins as in earlier releases: numbers were taken.
update merchant
   set settings = convert_to(regexp_replace(convert_from(settings, 'UTF8'), '\}$', ',"cardEntry":"NUMBERS"}'), 'UTF8')
 where convert_from(settings, 'UTF8') not like '%"cardEntry":%';
