UPDATE changes SET size = size + (SELECT length(CAST(b.data AS BLOB)) FROM changes b WHERE b.revision = changes.prev_revision),
prev_fields = (SELECT b.fields FROM changes b WHERE b.revision = changes.prev_revision),
prev_data = (SELECT b.data FROM changes b WHERE b.revision = changes.prev_revision) WHERE op = 'update' AND prev_data IS NULL;
DELETE FROM changes WHERE revision <= (SELECT floor FROM meta);
UPDATE meta SET history_bytes = (SELECT coalesce(sum(size), 0) FROM changes);
