-- Who issues electronic invoices, and what the simulated stamping provider knows.

-- A merchant's certificates of digital seal (CSD). The newest one seals new documents; older ones stay, because a document
-- that was sealed with one is sent again byte for byte. issuer: JSON, what a document shows of its issuer. wrapped_key is the
-- private key (PKCS#8, DER) under a sealing key of the installation, bound to its merchant and issuer_id.
create table fiscal_issuer (
  merchant_id        uuid        not null,
  issuer_id          uuid        not null,
  certificate_number text        not null,
  issuer             text        not null,
  certificate        bytea       not null,
  sealing_key_id     text        not null,
  wrapped_key        bytea       not null,
  set_at             timestamptz not null default clock_timestamp(),
  primary key (merchant_id, issuer_id),
  unique (merchant_id, certificate_number)
);

-- The simulated provider's certificate and key, made once. They are worth nothing outside the sandbox, and are kept open.
create table sandbox_stamping_key (
  id          int4  primary key check (id = 1),
  certificate bytea not null,
  key         bytea not null
);

-- One row per call that the simulated provider answered, in the commit that counts it: a look-up finds it after any crash.
-- xml is null for a document that it was asked to refuse before it had it.
create table sandbox_stamp (
  merchant_id uuid        not null,
  document_id uuid        not null,
  stamped_at  timestamptz not null default now(),
  fiscal_uuid uuid        unique,
  seal        text,
  xml         bytea,
  cancelled   text,
  primary key (merchant_id, document_id)
);
create unique index sandbox_stamp_seal on sandbox_stamp (merchant_id, seal) where seal is not null;

-- How the provider treats a merchant's next calls: REFUSE with a code and message, or DOWN, for `times_left` calls, or for
-- all where that is null.
create table sandbox_stamping_mode (
  merchant_id uuid primary key,
  mode        text not null check (mode in ('OK', 'REFUSE', 'DOWN')),
  times_left  int8,
  code        text not null,
  message     text not null
) with (fillfactor = 50);

-- The events of documents, for the report of a month. The rows of all other events are left out of the index.
create index event_of_documents on event (merchant_id, recorded_at) where topic in (
  'document-announced.v1', 'stamping-requested.v1', 'document-stamped.v1', 'document-refused.v1',
  'document-cancellation-requested.v1', 'document-cancellation-pending.v1', 'document-cancelled.v1',
  'document-cancellation-refused.v1');
