UPDATE changes c SET prev_data = b.data, prev_fields = b.fields, size = c.size + octet_length(b.data)
FROM changes b WHERE b.revision = c.prev_revision AND c.op = 'update' AND c.prev_data IS NULL;
DELETE FROM changes WHERE revision <= (SELECT floor FROM meta);
UPDATE meta SET revision = coalesce(revision, (SELECT max(c.revision) FROM changes c WHERE c.revision > meta.floor), floor),
history_bytes = (SELECT coalesce(sum(c.size), 0) FROM changes c WHERE c.revision > meta.floor);
ALTER TABLE meta ALTER COLUMN revision SET NOT NULL;
ALTER TABLE meta DROP COLUMN freed;
ALTER TABLE changes DROP COLUMN total;
DROP TABLE servers;
