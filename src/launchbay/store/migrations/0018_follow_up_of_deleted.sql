-- A consumer that is deleted at the same moment must not keep the job of what it stood on from ending.

-- What follows from a change of an instance's signals: workflows that run by themselves, a look of the instances that stand
-- on it (except for the one whose job has just run this one), and what its submodules get from their peers in it.
CREATE OR REPLACE FUNCTION launchbay_follow_up(
    of_instance text, of_owner text, outer_job text, signals_changed boolean,
    next_kinds text[], next_components text[], next_workflows text[], next_times timestamptz[],
    fed_ids text[], fed_values text[]
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    IF cardinality(next_kinds) > 0 THEN
        INSERT INTO schedules (id, instance_id, kind, workflow, component, owner_id, due_at)
        SELECT launchbay_new_id(), of_instance, next.kind, next.workflow, next.component, of_owner,
               coalesce(next.due_at, now())
        FROM unnest(next_kinds, next_components, next_workflows, next_times) AS next (kind, component, workflow, due_at)
        ON CONFLICT DO NOTHING;
    END IF;
    IF signals_changed THEN
        INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)
        SELECT launchbay_new_id(), consumer.id, 'signals', '', consumer.owner_id, now()
        FROM instances consumer
        WHERE consumer.id IN (SELECT instance_id FROM instance_links WHERE target_id = of_instance)
          AND consumer.status NOT IN ('Destroying', 'Destroyed')
          AND (outer_job IS NULL OR consumer.job_id IS DISTINCT FROM outer_job)
        ORDER BY consumer.id
        -- One that is deleted at this moment is left out; without the lock the reference to it would fail the statement.
        FOR KEY SHARE OF consumer
        ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(fed_ids) > 0 THEN
        WITH fed AS (
            UPDATE instances SET fed_signals = given.signals
            FROM unnest(fed_ids, fed_values) AS given (id, signals)
            WHERE instances.id = given.id AND instances.fed_signals <> given.signals
              AND instances.status NOT IN ('Destroying', 'Destroyed')
            RETURNING instances.id, instances.owner_id
        )
        INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)
        SELECT launchbay_new_id(), fed.id, 'signals', '', fed.owner_id, now() FROM fed
        ON CONFLICT DO NOTHING;
    END IF;
END
$$;
