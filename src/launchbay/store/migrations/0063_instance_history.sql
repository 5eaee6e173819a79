-- What instances were: each change of one keeps what it replaced. The state at a time is the present one with the later changes
-- undone, so that rows can go by their age, and instances from before the upgrade need none.

-- From when on the changes of an instance are kept: from its creation, or from this upgrade. No row is written anew.
ALTER TABLE instances ADD COLUMN recorded_since timestamptz NOT NULL DEFAULT now();

CREATE TABLE instance_history (
    id          bigint NOT NULL DEFAULT nextval('instance_changes'),
    instance_id text NOT NULL,
    -- The job under way, or the one that has just ended.
    job_id      text,
    -- Field → the value before the change: columns of `instances` as text, and `machines` by component.
    former      text NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (instance_id, id)
) PARTITION BY RANGE (id);

-- As 0026 has it: the first partition ends with the block under way, and there is one for the block after it.
DO $$
DECLARE
    reached integer;
BEGIN
    SELECT greatest(max(block), (SELECT (last_value >> 36)::integer FROM instance_changes)) INTO reached
    FROM number_blocks WHERE sequence = 'instance_changes';
    EXECUTE format('CREATE TABLE instance_history_0 PARTITION OF instance_history FOR VALUES FROM (MINVALUE) TO (%s)', (reached + 1)::bigint << 36);
    INSERT INTO partitions VALUES ('instance_history', 0, 'instance_changes', 0, reached + 1);
    PERFORM launchbay_add_partitions('instance_changes', 'instance_history', 1, reached);
END
$$;

-- The machines of each component in a state, as JSON.
CREATE FUNCTION launchbay_machines(state text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(json_object_agg(key, value -> 'machines' ORDER BY key), '{}')::text
    FROM json_each(state::json) WHERE json_array_length(coalesce(value -> 'machines', '[]')) > 0
$$;

-- Values from a vault are shown nowhere, so history has no use for them: it would only be more to encrypt with another key.
CREATE FUNCTION launchbay_masked(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN strpos($1, 'launchbay:sealed:') > 0 THEN regexp_replace($1, 'launchbay:sealed:[A-Za-z0-9_-]+;', '********', 'g') ELSE $1 END
$$;

CREATE FUNCTION launchbay_keep_former_state() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    had_machines text;
    has_machines text;
BEGIN
    -- Most instances have no machines; to look for that in the text is cheap.
    IF strpos(OLD.state, '"machines":[{') > 0 OR strpos(NEW.state, '"machines":[{') > 0 THEN
        IF OLD.state IS DISTINCT FROM NEW.state THEN
            had_machines := launchbay_machines(OLD.state);
            has_machines := launchbay_machines(NEW.state);
        END IF;
    END IF;
    INSERT INTO instance_history (instance_id, job_id, former)
    SELECT NEW.id, coalesce(NEW.job_id, OLD.job_id), json_object_agg(field, value)::text
    FROM (VALUES
        ('status', OLD.status IS DISTINCT FROM NEW.status, OLD.status),
        ('version', OLD.version <> NEW.version, OLD.version::text),
        ('name', OLD.name <> NEW.name, OLD.name),
        ('parameters', OLD.parameters <> NEW.parameters, launchbay_masked(OLD.parameters)),
        ('parameter_origins', OLD.parameter_origins <> NEW.parameter_origins, OLD.parameter_origins),
        ('return_values', OLD.return_values <> NEW.return_values AND launchbay_masked(OLD.return_values) <> launchbay_masked(NEW.return_values),
            launchbay_masked(OLD.return_values)),
        ('components', OLD.components <> NEW.components, OLD.components),
        ('environment_view', OLD.environment_view <> NEW.environment_view, launchbay_masked(OLD.environment_view)),
        ('user_data', OLD.user_data <> NEW.user_data, OLD.user_data),
        ('labels', OLD.labels <> NEW.labels, OLD.labels::text),
        ('error_message', OLD.error_message IS DISTINCT FROM NEW.error_message, OLD.error_message),
        ('last_failure', OLD.last_failure IS DISTINCT FROM NEW.last_failure, OLD.last_failure),
        ('destroy_at', OLD.destroy_at IS DISTINCT FROM NEW.destroy_at, OLD.destroy_at::text),
        ('machines', had_machines IS DISTINCT FROM has_machines, had_machines)
    ) AS was (field, has_changed, value)
    WHERE has_changed
    HAVING count(*) > 0;
    RETURN NULL;
END
$$;

CREATE TRIGGER instances_keep_former AFTER UPDATE ON instances FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.version <> NEW.version OR OLD.name <> NEW.name
          OR OLD.parameters <> NEW.parameters OR OLD.parameter_origins <> NEW.parameter_origins
          OR OLD.return_values <> NEW.return_values OR OLD.components <> NEW.components
          OR OLD.environment_view <> NEW.environment_view OR OLD.user_data <> NEW.user_data OR OLD.labels <> NEW.labels
          OR OLD.error_message IS DISTINCT FROM NEW.error_message OR OLD.last_failure IS DISTINCT FROM NEW.last_failure
          OR OLD.destroy_at IS DISTINCT FROM NEW.destroy_at OR OLD.state <> NEW.state)
    EXECUTE FUNCTION launchbay_keep_former_state();

-- An instance that somebody deletes goes with all rows. Retention leaves history to its partitions.
CREATE OR REPLACE FUNCTION launchbay_forget_instance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('launchbay.leaves_history', true) IS DISTINCT FROM 'on' THEN
        -- Its jobs are gone by now, and with them whoever might write.
        DELETE FROM log_lines WHERE instance_id = OLD.id;
        DELETE FROM instance_events WHERE instance_id = OLD.id;
        DELETE FROM instance_history WHERE instance_id = OLD.id;
    END IF;
    PERFORM pg_notify('launchbay_events', OLD.id) FROM event_watches WHERE instance_id = OLD.id LIMIT 1;
    RETURN NULL;
END
$$;
