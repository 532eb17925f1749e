-- The tables of Rowlock. The text is the same as for SQLite but for the types of columns and meta.origin.

-- One row: the state of the store as a whole.
CREATE TABLE meta (
  id            SMALLINT PRIMARY KEY CHECK (id = 1),
  revision      BIGINT NOT NULL, -- of the last write; every object written raises it by one
  floor         BIGINT NOT NULL, -- changes holds every change with a revision greater than this
  history_bytes BIGINT NOT NULL, -- the sum of changes.size
  origin        TEXT NOT NULL DEFAULT '' -- where the counter was raised last: cluster/timeline/table; '' before the first start
);
INSERT INTO meta (id, revision, floor, history_bytes) VALUES (1, 1, 1, 0);

-- The present state: a row per object.
CREATE TABLE objects (
  resource  TEXT COLLATE "C" NOT NULL,    -- resource type, with its group: 'pods', 'deployments.apps'
  namespace TEXT COLLATE "C" NOT NULL,    -- '' for cluster-scoped types
  name      TEXT COLLATE "C" NOT NULL,
  revision  BIGINT NOT NULL, -- of the last write of this object, its metadata.resourceVersion
  expires   BIGINT,          -- when the store deletes it, in milliseconds since 1970; NULL for never
  fields    TEXT,             -- the selectable fields of the type as a JSON object of strings; NULL for none
  data      TEXT NOT NULL,    -- the object in its storage version, as JSON
  PRIMARY KEY (resource, namespace, name)
);
CREATE INDEX objects_expires ON objects (expires) WHERE expires IS NOT NULL;

-- The log: a row per write, in the order of commits, without gaps after meta.floor.
CREATE TABLE changes (
  revision      BIGINT PRIMARY KEY,
  at            BIGINT NOT NULL, -- when it was committed, in milliseconds since 1970
  size          BIGINT NOT NULL, -- bytes of data and prev_data
  op            TEXT NOT NULL CHECK (op IN ('create', 'update', 'delete')),
  resource      TEXT COLLATE "C" NOT NULL,
  namespace     TEXT COLLATE "C" NOT NULL,
  name          TEXT COLLATE "C" NOT NULL,
  prev_revision BIGINT,          -- of the object before this write; NULL for a create
  fields        TEXT,             -- as in objects, after the write; for a delete, before it
  prev_fields   TEXT,             -- before the write; NULL for none, and for a create or a delete
  data          TEXT NOT NULL,    -- the object after the write; for a delete its last state under the revision of the deletion
  prev_data     TEXT              -- the object before the write; NULL for a create or a delete (data has it)
);
CREATE INDEX changes_resource ON changes (resource, revision);
