-- When the store was closed: the time of the last change plus the time that the store was open since, in milliseconds since 1970. The
-- age of history counts only the time that the store was open. NULL: unknown; the age then counts from the last change.
ALTER TABLE meta ADD COLUMN closed INTEGER;
