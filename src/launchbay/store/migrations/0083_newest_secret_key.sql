-- The row 'secret key' of server_keys says which secret key encrypts: the first five bytes of everything encrypted with it. The marks
-- behind it are those of keys that a rotation replaces, whose values it still encrypts again.

-- Which of these keys each process encrypts with. Null: it doesn't have the newest, and encrypts nothing.
CREATE TABLE key_users (
    id text PRIMARY KEY,
    name text NOT NULL,
    mark bytea,
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Refuses values of a key that the rotation has removed: nobody would encrypt them again. The end of a rotation takes the lock alone, so
-- it waits for transactions that have passed this check.
CREATE FUNCTION launchbay_check_key() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    given bytea;
    former bytea;
    marks bytea;
BEGIN
    EXECUTE format('SELECT ($1).%I', TG_ARGV[0]) USING NEW INTO given;
    IF TG_OP = 'UPDATE' THEN
        EXECUTE format('SELECT ($1).%I', TG_ARGV[0]) USING OLD INTO former;
    END IF;
    IF given IS NULL OR given = '' OR given = former THEN
        RETURN NEW;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(5064719320042);
    SELECT value INTO marks FROM server_keys WHERE name = 'secret key';
    FOR place IN 0..coalesce(length(marks), 0) / 5 - 1 LOOP
        IF substring(marks FROM place * 5 + 1 FOR 5) = substring(given FROM 1 FOR 5) THEN
            RETURN NEW;
        END IF;
    END LOOP;
    IF marks IS NOT NULL THEN
        RAISE EXCEPTION 'This value is encrypted with a secret key that was replaced.' USING ERRCODE = 'LBKEY';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER service_secrets_sealed_key BEFORE INSERT OR UPDATE OF sealed ON service_secrets FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('sealed');
CREATE TRIGGER vault_entries_sealed_key BEFORE INSERT OR UPDATE OF sealed ON vault_entries FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('sealed');
CREATE TRIGGER webhooks_secret_key BEFORE INSERT OR UPDATE OF secret ON webhooks FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('secret');
CREATE TRIGGER webhooks_sealed_url_key BEFORE INSERT OR UPDATE OF sealed_url ON webhooks FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('sealed_url');
CREATE TRIGGER applications_sealed_source_key BEFORE INSERT OR UPDATE OF sealed_source ON applications FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('sealed_source');
CREATE TRIGGER session_keys_sealed_key BEFORE INSERT OR UPDATE OF sealed ON session_keys FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('sealed');
CREATE TRIGGER idempotency_keys_answer_key BEFORE INSERT OR UPDATE OF answer ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('answer');
CREATE TRIGGER cloud_sign_ins_sealed_key BEFORE INSERT OR UPDATE OF sealed ON cloud_sign_ins FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('sealed');
CREATE TRIGGER kept_documents_sealed_key BEFORE INSERT OR UPDATE OF sealed ON kept_documents FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('sealed');
CREATE TRIGGER bulk_runs_sealed_act_key BEFORE INSERT OR UPDATE OF sealed_act ON bulk_runs FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('sealed_act');
CREATE TRIGGER git_sources_sealed_parameters_key BEFORE INSERT OR UPDATE OF sealed_parameters ON git_sources FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('sealed_parameters');
CREATE TRIGGER change_sets_act_key BEFORE INSERT OR UPDATE OF act ON change_sets FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('act');
CREATE TRIGGER recurring_schedules_act_key BEFORE INSERT OR UPDATE OF act ON recurring_schedules FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('act');
CREATE TRIGGER second_factors_secret_key BEFORE INSERT OR UPDATE OF secret ON second_factors FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('secret');
