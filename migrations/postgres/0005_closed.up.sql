-- The time of the last change, and how long the store was open since, when it was closed, in milliseconds since 1970: the age of history
-- counts the time that the store was open. NULL: not known, then it counts from the last change.
ALTER TABLE meta ADD COLUMN closed BIGINT;
