-- The age of history when it was last noted, in time that a store was open: [[revision, milliseconds], ...]; the changes up to the
-- revision had existed for so long. NULL: unknown; the age then counts from the next start. It replaces closed, which nothing reads any more.
ALTER TABLE meta ADD COLUMN ages TEXT;
UPDATE meta SET closed = NULL;
