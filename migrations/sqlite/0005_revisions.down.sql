DROP TABLE revisions;
DROP TABLE recording;
