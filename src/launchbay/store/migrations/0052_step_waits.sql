-- What the steps of jobs under way wait for, as `model/job.py` reads it. A row counts while the claim that wrote it holds the job.
CREATE TABLE step_waits (
    job_id text NOT NULL REFERENCES jobs ON DELETE CASCADE,
    path   text NOT NULL,
    fence  integer NOT NULL,
    since  timestamptz NOT NULL DEFAULT clock_timestamp(),
    wait   text NOT NULL,
    PRIMARY KEY (job_id, path)
);
