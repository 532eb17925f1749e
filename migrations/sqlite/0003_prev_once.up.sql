-- The tables do not change. From this version on, an update has changes.prev_data and prev_fields only if the change
-- prev_revision was not after meta.floor: otherwise they are the data and fields of that change. A change stays in the table,
-- below the floor, until the change that has it as prev_revision is pruned. Version 1 would misread that: it refuses a schema
-- two versions ahead of it. Postgres, where servers of both versions work side by side, begins with it later: see step 2 there.
SELECT 1;
