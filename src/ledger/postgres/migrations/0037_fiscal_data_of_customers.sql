-- The setting invoiceByDefault of merchants, which begins as false.
update merchant
   set settings = convert_to(regexp_replace(convert_from(settings, 'UTF8'), '\}$', ',"invoiceByDefault":false}'), 'UTF8')
 where convert_from(settings, 'UTF8') not like '%"invoiceByDefault":%';
-- What plans have for invoices, which no earlier plan has. The first status in a document is the plan's own: texts before
-- it have their quotation marks escaped.
update plan
   set doc = convert_to(regexp_replace(convert_from(doc, 'UTF8'), ',"status":"',
                                       ',"productKey":null,"unitKey":null,"taxes":null,"status":"'), 'UTF8');
