-- The setting fractionalAmounts of merchants, which begins as true: amounts may have a fraction of a minor unit.
update merchant
   set settings = convert_to(regexp_replace(convert_from(settings, 'UTF8'), '\}$', ',"fractionalAmounts":true}'), 'UTF8')
 where convert_from(settings, 'UTF8') not like '%"fractionalAmounts":%';
