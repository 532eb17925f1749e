UPDATE meta SET revision = coalesce(revision, (SELECT max(c.revision) FROM changes c WHERE c.revision > meta.floor), floor),
history_bytes = (SELECT coalesce(sum(c.size), 0) FROM changes c WHERE c.revision > meta.floor);
ALTER TABLE meta ALTER COLUMN revision SET NOT NULL;
ALTER TABLE meta DROP COLUMN freed;
ALTER TABLE changes DROP COLUMN total;
DROP TABLE servers;
