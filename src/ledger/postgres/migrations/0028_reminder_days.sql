-- The setting reminderDays of merchants, which begins as 3 and 0: payers are reminded three days before a due date, and on it.
update merchant
   set settings = convert_to(regexp_replace(convert_from(settings, 'UTF8'), '\}$', ',"reminderDays":[3,0]}'), 'UTF8')
 where convert_from(settings, 'UTF8') not like '%"reminderDays":%';
