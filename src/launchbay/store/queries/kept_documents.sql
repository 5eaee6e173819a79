-- name: of_instance
SELECT component, action, name FROM kept_documents WHERE instance_id = %(instance_id)s ORDER BY component, action, name;

-- name: read
SELECT id, version, sealed FROM kept_documents
WHERE instance_id = %(instance_id)s AND component = %(component)s AND action = %(action)s AND name = %(name)s;

-- name: write
-- Only while the writer holds the job, and over the version that it has read (0: there was none). No row: one of the two is not so.
INSERT INTO kept_documents (id, instance_id, component, action, name, sealed)
SELECT %(document_id)s, %(instance_id)s, %(component)s, %(action)s, %(name)s, %(sealed)s
FROM jobs WHERE id = %(job_id)s AND fence = %(fence)s AND status = 'Executing'
ON CONFLICT (instance_id, component, action, name) DO UPDATE
SET sealed = excluded.sealed, version = kept_documents.version + 1, updated_at = now()
WHERE kept_documents.version = %(version)s AND kept_documents.id = excluded.id
RETURNING version;

-- name: forget
DELETE FROM kept_documents USING jobs
WHERE kept_documents.instance_id = %(instance_id)s AND component = %(component)s AND action = %(action)s AND kept_documents.name = %(name)s
  AND jobs.id = %(job_id)s AND jobs.fence = %(fence)s AND jobs.status = 'Executing';

-- name: holds
-- Whether a worker still holds a job.
SELECT true FROM jobs WHERE id = %(job_id)s AND fence = %(fence)s AND status = 'Executing';
