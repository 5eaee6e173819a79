-- Ids sort in the order of their making within a second, too: seconds, microseconds, 44 random bits, as the servers make them.
CREATE OR REPLACE FUNCTION launchbay_new_id() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT lpad(to_hex((us / 1000000) & 4294967295), 8, '0') || lpad(to_hex(us % 1000000), 5, '0')
        || right(replace(gen_random_uuid()::text, '-', ''), 11)
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) AS now
$$;
