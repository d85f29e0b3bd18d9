-- The last folio that a series of a merchant's documents has given out. A number is committed here before a document gets
-- it, so that no two documents have the same.
create table invoice_folio (
  merchant_id uuid not null,
  series      text not null,
  last        int8 not null,
  primary key (merchant_id, series)
) with (fillfactor = 50);
-- The settings invoiceSeries and invoiceFolio of merchants, which begin as those of earlier releases.
update merchant
   set settings = convert_to(regexp_replace(convert_from(settings, 'UTF8'), '\}$',
                                            ',"invoiceSeries":null,"invoiceFolio":"ORDER_NUMBER"}'), 'UTF8')
 where convert_from(settings, 'UTF8') not like '%"invoiceFolio":%';
