DROP TABLE changes;
DROP TABLE objects;
DROP TABLE meta;
