-- What stands in the address of a webhook or of a manifest's source is often a secret. The whole address is sealed with the server's
-- secret key; the columns that hold it in the clear keep what lists show. The next start seals what is there already.

ALTER TABLE webhooks ADD COLUMN sealed_url bytea;
ALTER TABLE applications ADD COLUMN sealed_source bytea;
