-- Nothing: a SQLite database has one server, and no snapshot that lasts.
SELECT 1;
