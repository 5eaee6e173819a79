-- Parameters of bulk runs and of previews of pull requests may be secrets: they are sealed with the server's secret key. `act` and
-- `settings` keep what pages show. Each start, and each turn of a bulk run, seals what an older server has left in the clear.

ALTER TABLE bulk_runs ADD COLUMN sealed_act bytea;
ALTER TABLE git_sources ADD COLUMN sealed_parameters bytea;
