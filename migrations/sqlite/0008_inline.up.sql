-- The objects that have their data in the table current itself have revisions up to this one: see step 9. NULL: all may.
ALTER TABLE meta ADD COLUMN inline INTEGER;
