-- Who made the change: a JSON object with user, as, verb, subresource and agent, of which those are left out that are empty. NULL
-- where the version before wrote it. From here on, changes.size has its bytes, too.
ALTER TABLE changes ADD COLUMN author TEXT;
