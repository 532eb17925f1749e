-- The log is the counter. A row that every transaction updates leaves a dead version each time, which all have to pass while
-- somebody keeps a snapshot open, such as a dump. The row of meta stays the lock under which revisions are given.

-- NULL: the counter is the last revision of changes, or meta.floor where nothing is left of them. Servers of the version
-- before cannot read that, so they stop instead of going wrong; a server makes it NULL when none of them is there.
ALTER TABLE meta ALTER COLUMN revision DROP NOT NULL;
ALTER TABLE meta ADD COLUMN freed BIGINT NOT NULL DEFAULT 0; -- the sum of changes.size that was pruned

-- The sum of changes.size up to this one, of all times: without meta.freed, the bytes of history. NULL where the version
-- before wrote it.
ALTER TABLE changes ADD COLUMN total BIGINT;

-- Once meta.revision is NULL, an update has changes.prev_data and prev_fields only where the change prev_revision was not
-- after meta.floor: else those are its data and fields. A change stays in the table, below the floor, until the one that
-- has it as prev_revision is pruned.

-- The servers that listen for changes, each by the advisory lock that it holds.
CREATE TABLE servers (
  id  INTEGER PRIMARY KEY,
  pid INTEGER NOT NULL -- of the backend that it listens through
);
