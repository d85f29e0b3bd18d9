-- The setting alertEmail of merchants, which begins as null.
update merchant
   set settings = convert_to(regexp_replace(convert_from(settings, 'UTF8'), '\}$', ',"alertEmail":null}'), 'UTF8')
 where convert_from(settings, 'UTF8') not like '%"alertEmail":%';
