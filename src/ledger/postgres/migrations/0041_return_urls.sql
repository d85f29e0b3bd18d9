-- Where the sandbox's page sends the payer after a redirect. Sessions of earlier releases have none.
alter table sandbox_authentication add column return_url text;
