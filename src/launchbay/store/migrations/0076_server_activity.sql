-- The organizations that send requests to each server, told once a second while there are any (decision 0118).
CREATE UNLOGGED TABLE server_activity (
    server        text PRIMARY KEY,
    machine       text NOT NULL,
    organizations text[] NOT NULL,
    told_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
