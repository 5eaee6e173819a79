-- Approvals: what steps ask people, and the answers. The decision is the commit that changes the status; the step finds it there.

CREATE TABLE approvals (
    id               text PRIMARY KEY,
    organization_id  text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    instance_id      text NOT NULL REFERENCES instances ON DELETE CASCADE,
    job_id           text NOT NULL REFERENCES jobs ON DELETE CASCADE,
    -- The step's path in the plan.
    step             text NOT NULL,
    -- With its secrets covered.
    text             text NOT NULL,
    -- Who may answer beyond the permission that every answer takes: who has this permission, or this role.
    permission       text,
    role_id          text,
    needed           integer NOT NULL CHECK (needed > 0),
    -- The users who asked for the job, and for those that it resumes; with not_by_requester they may not answer.
    requesters       text[] NOT NULL,
    not_by_requester boolean NOT NULL,
    status           text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'rejected', 'expired', 'withdrawn')),
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at       timestamptz NOT NULL,
    decided_at       timestamptz,
    UNIQUE (job_id, step)
);
CREATE INDEX approvals_instance ON approvals (instance_id, id);
CREATE INDEX approvals_pending ON approvals (organization_id, id) WHERE status = 'pending';
CREATE INDEX approvals_pending_of_job ON approvals (job_id) WHERE status = 'pending';

CREATE TABLE approval_answers (
    approval_id text NOT NULL REFERENCES approvals ON DELETE CASCADE,
    -- No reference: an answer outlives the account.
    user_id     text NOT NULL,
    email       text NOT NULL,
    approves    boolean NOT NULL,
    comment     text NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (approval_id, user_id)
);

ALTER TABLE instance_events DROP CONSTRAINT instance_events_kind_check;
ALTER TABLE instance_events ADD CONSTRAINT instance_events_kind_check
    CHECK (kind IN ('status', 'begun', 'ended', 'signal', 'approval'));

-- Who writes here holds the row of the running job, so the events of the instance stay in the order of the commits.
CREATE FUNCTION launchbay_note_approval() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO instance_events (instance_id, kind, subject) VALUES (NEW.instance_id, 'approval', NEW.id);
    PERFORM pg_notify('launchbay_events', NEW.instance_id) FROM event_watches WHERE instance_id = NEW.instance_id LIMIT 1;
    PERFORM launchbay_post(instances, 'approval', json_build_object(
        'id', NEW.id, 'status', NEW.status, 'text', NEW.text, 'job', NEW.job_id, 'step', NEW.step
    )) FROM instances WHERE instances.id = NEW.instance_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER approvals_asked AFTER INSERT ON approvals FOR EACH ROW EXECUTE FUNCTION launchbay_note_approval();
CREATE TRIGGER approvals_decided AFTER UPDATE ON approvals FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION launchbay_note_approval();

-- However a job ends, nobody is asked for it any more.
CREATE FUNCTION launchbay_withdraw_approvals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE approvals SET status = 'withdrawn', decided_at = now() WHERE job_id = NEW.id AND status = 'pending';
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_ended AFTER UPDATE OF status ON jobs FOR EACH ROW
    WHEN (OLD.status = 'Executing' AND NEW.status <> 'Executing') EXECUTE FUNCTION launchbay_withdraw_approvals();

-- Approvals as the API shows them.
CREATE VIEW approvals_shown AS
SELECT approvals.id, approvals.organization_id, approvals.instance_id, instances.name AS instance_name, instances.application_id,
       instances.environment_id, approvals.job_id, jobs.name AS workflow, approvals.step, approvals.text, approvals.permission,
       approvals.role_id, roles.name AS role, approvals.needed, approvals.requesters, approvals.not_by_requester, approvals.status,
       approvals.created_at, approvals.expires_at, approvals.decided_at, (
           SELECT coalesce(json_agg(json_build_array(user_id, email, approves, comment, floor(extract(epoch FROM at) * 1000)::bigint)
                                    ORDER BY at, user_id), '[]')
           FROM approval_answers WHERE approval_id = approvals.id
       )::text AS answers
FROM approvals JOIN jobs ON jobs.id = approvals.job_id JOIN instances ON instances.id = approvals.instance_id
LEFT JOIN roles ON roles.id = approvals.role_id;
