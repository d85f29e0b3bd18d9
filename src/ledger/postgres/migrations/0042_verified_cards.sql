-- Cards that are verified before they are saved: shown, but in no list until they are.
alter table payment_method add column is_saved boolean not null default true;
-- What the document of a saved card shows of its verification, which no earlier one has. A document ends with updatedAt.
update payment_method
   set doc = convert_to(regexp_replace(convert_from(doc, 'UTF8'), '\}$',
             ',"status":"ACTIVE","nextAction":null,"payerAuthentication":null,"failure":null}'), 'UTF8')
 where doc is not null;
-- A session that verifies a card has no amount and no payment.
alter table sandbox_authentication drop constraint sandbox_authentication_amount_check;
alter table sandbox_authentication add constraint sandbox_authentication_amount_check check (amount >= 0);
alter table sandbox_authentication add column payment_method_id uuid;
