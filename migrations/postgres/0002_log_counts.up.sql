-- The counter is the last revision of the log. A row that every transaction updates leaves a dead version each time, and every
-- transaction has to pass those while a snapshot is kept open, by a dump for example. The row of meta stays the lock under which
-- revisions are assigned.

-- NULL: the counter is the last revision of changes, or meta.floor if no change is left. Servers of version 1 cannot read that,
-- so they stop instead of assigning wrong revisions; a server sets it to NULL when none of them is running.
ALTER TABLE meta ALTER COLUMN revision DROP NOT NULL;
ALTER TABLE meta ADD COLUMN freed BIGINT NOT NULL DEFAULT 0; -- the sum of changes.size that was pruned

-- The sum of changes.size of all changes up to this one, pruned ones included: minus meta.freed, the bytes of history. NULL if a
-- server of version 1 wrote the change.
ALTER TABLE changes ADD COLUMN total BIGINT;

-- Once meta.revision is NULL, an update has changes.prev_data and prev_fields only if the change prev_revision was not after
-- meta.floor: otherwise they are the data and fields of that change. A change stays in the table, below the floor, until the
-- change that has it as prev_revision is pruned.

-- The servers that listen for changes. id is the number of the advisory lock that a server holds.
CREATE TABLE servers (
  id  INTEGER PRIMARY KEY,
  pid INTEGER NOT NULL -- of the backend that it listens through
);
