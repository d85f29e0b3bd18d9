-- The setting unknownFields of merchants, which begins as WARN.
update merchant
   set settings = convert_to(regexp_replace(convert_from(settings, 'UTF8'), '\}$', ',"unknownFields":"WARN"}'), 'UTF8')
 where convert_from(settings, 'UTF8') not like '%"unknownFields":%';
