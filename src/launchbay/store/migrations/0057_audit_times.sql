-- The ID of the first audit entry of an organization from a time on, or above all of them, found by halving in the index of IDs. IDs of
-- transactions that overlap can be in another order than times, by less than a minute: callers leave as much room.
CREATE FUNCTION launchbay_audit_place(of_organization text, from_time timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    low bigint;
    high bigint;
    middle bigint;
    found record;
BEGIN
    SELECT id INTO low FROM audit_entries WHERE organization_id = of_organization ORDER BY id LIMIT 1;
    SELECT id + 1 INTO high FROM audit_entries WHERE organization_id = of_organization ORDER BY id DESC LIMIT 1;
    WHILE low < high LOOP
        middle := low + (high - low) / 2;
        SELECT id, at INTO found FROM audit_entries WHERE organization_id = of_organization AND id >= middle ORDER BY id LIMIT 1;
        IF found.at < from_time THEN
            low := found.id + 1;
        ELSE
            high := middle;
        END IF;
    END LOOP;
    RETURN coalesce(low, 0);
END
$$;
