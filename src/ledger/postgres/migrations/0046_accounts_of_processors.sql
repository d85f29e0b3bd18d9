-- A merchant may have several accounts with one processor.

-- The further accounts of merchants with the simulated processor. Its records of an account are kept under `book_id`, in the
-- columns that name the merchant; those of the account that every merchant has are kept under the merchant's own id.
create table sandbox_account (
  book_id     uuid primary key,
  merchant_id uuid not null,
  account     text not null,
  unique (merchant_id, account)
);

-- Two accounts of one processor may give two messages the same id. The account is empty if it is named as the processor, as in
-- all rows of before.
alter table processor_message add column account text not null default '';
alter table processor_message drop constraint processor_message_pkey,
  add primary key (processor, merchant_id, message_id, account);
