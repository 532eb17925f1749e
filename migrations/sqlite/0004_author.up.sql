-- The author of the change: a JSON object with user, as, verb, subresource and agent; empty members are left out. NULL if a
-- server of an earlier version wrote the change. From this version on, changes.size includes its bytes.
ALTER TABLE changes ADD COLUMN author TEXT;
