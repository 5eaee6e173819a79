-- The same words of instances, for a third of the time: an index prepares a function in SQL anew with each statement that writes, and one
-- in PL/pgSQL once for each session.
CREATE OR REPLACE FUNCTION launchbay_word_groups(organization_id text, search text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    organization text := right(organization_id, 4);
    groups text[] := '{}';
BEGIN
    FOR place IN 1 .. length(search) - 2 LOOP
        groups[place] := organization || substr(search, place, 3);
    END LOOP;
    RETURN groups;
END
$$;

CREATE OR REPLACE FUNCTION launchbay_search_text(name text, labels jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF labels = '{}' THEN
        RETURN lower(name);
    END IF;
    RETURN lower(concat_ws(' ', name, (SELECT string_agg(label.value, ' ') FROM jsonb_each_text(labels) AS label)));
END
$$;
