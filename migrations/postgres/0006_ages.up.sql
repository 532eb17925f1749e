-- How old history was when that was noted, in time that a store was open: [[revision, milliseconds], ...], where changes up to the
-- revision had been there for so long. NULL: not known, then it counts from the next start. In place of closed, which nothing reads any more.
ALTER TABLE meta ADD COLUMN ages TEXT;
UPDATE meta SET closed = NULL;
