ALTER TABLE changes DROP COLUMN author;
