-- The tables stay what they are. From here on, an update has changes.prev_data and prev_fields only where the change
-- prev_revision was not after meta.floor: else those are its data and fields. A change stays in the table, below the floor,
-- until the one that has it as prev_revision is pruned. Version 1 would read that wrong: it refuses what is two versions
-- ahead of it. Postgres, where servers of both versions work side by side, begins with it later, as said in step 2 there.
SELECT 1;
