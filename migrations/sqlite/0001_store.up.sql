-- The tables of Rowlock. The text is the same as for Postgres but for the types of columns and meta.origin.

-- One row: the state of the store as a whole.
CREATE TABLE meta (
  id            INTEGER PRIMARY KEY CHECK (id = 1),
  revision      INTEGER NOT NULL, -- of the last write; every object written raises it by one
  floor         INTEGER NOT NULL, -- changes holds every change with a revision greater than this
  history_bytes INTEGER NOT NULL  -- the sum of changes.size
);
INSERT INTO meta (id, revision, floor, history_bytes) VALUES (1, 1, 1, 0);

-- The present state: a row per object.
CREATE TABLE objects (
  resource  TEXT NOT NULL,    -- resource type, with its group: 'pods', 'deployments.apps'
  namespace TEXT NOT NULL,    -- '' for cluster-scoped types
  name      TEXT NOT NULL,
  revision  INTEGER NOT NULL, -- of the last write of this object, its metadata.resourceVersion
  expires   INTEGER,          -- when the store deletes it, in milliseconds since 1970; NULL for never
  fields    TEXT,             -- the selectable fields of the type as a JSON object of strings; NULL for none
  data      TEXT NOT NULL,    -- the object in its storage version, as JSON
  PRIMARY KEY (resource, namespace, name)
);
CREATE INDEX objects_expires ON objects (expires) WHERE expires IS NOT NULL;

-- The log: a row per write, in the order of commits, without gaps after meta.floor.
CREATE TABLE changes (
  revision      INTEGER PRIMARY KEY,
  at            INTEGER NOT NULL, -- when it was committed, in milliseconds since 1970
  size          INTEGER NOT NULL, -- bytes of data and prev_data
  op            TEXT NOT NULL CHECK (op IN ('create', 'update', 'delete')),
  resource      TEXT NOT NULL,
  namespace     TEXT NOT NULL,
  name          TEXT NOT NULL,
  prev_revision INTEGER,          -- of the object before this write; NULL for a create
  fields        TEXT,             -- as in objects, after the write; for a delete, before it
  prev_fields   TEXT,             -- before the write; NULL for none, and for a create or a delete
  data          TEXT NOT NULL,    -- the object after the write; for a delete its last state under the revision of the deletion
  prev_data     TEXT              -- the object before the write; NULL for a create or a delete (data has it)
);
CREATE INDEX changes_resource ON changes (resource, revision);
