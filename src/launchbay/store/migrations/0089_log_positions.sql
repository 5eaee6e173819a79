-- Up to where the log of a step has the output of a program elsewhere, written with the lines: another process continues there. The source is
-- a machine's stream. A retry is another program, so each attempt has its own.
CREATE TABLE log_positions (
    job_id   text NOT NULL REFERENCES jobs ON DELETE CASCADE,
    path     text NOT NULL,
    attempt  integer NOT NULL,
    source   text NOT NULL,
    position text NOT NULL,
    PRIMARY KEY (job_id, path, attempt, source)
);
