-- The setting pueRefund of merchants, which begins as CREDIT_NOTE.
update merchant
   set settings = convert_to(regexp_replace(convert_from(settings, 'UTF8'), '\}$', ',"pueRefund":"CREDIT_NOTE"}'), 'UTF8')
 where convert_from(settings, 'UTF8') not like '%"pueRefund":%';
