-- The object history: earlier writes, which are kept for people for days, besides the log, which watches need for minutes.

-- A row per recorded write. Rows are self-contained: none is needed to read another, so any may be deleted at any time.
CREATE TABLE revisions (
  revision  BIGINT PRIMARY KEY, -- as in changes
  at        BIGINT NOT NULL,    -- as in changes
  size      BIGINT NOT NULL,    -- bytes of the row, about
  op        TEXT NOT NULL,       -- as in changes
  resource  TEXT COLLATE "C" NOT NULL,
  namespace TEXT COLLATE "C" NOT NULL,
  name      TEXT COLLATE "C" NOT NULL,
  uid       TEXT NOT NULL,       -- '' where the object could not be read
  author    TEXT,                -- as in changes
  fields    TEXT,                -- the paths that the write changed, as a JSON array; NULL where they are encrypted, with data
  data      BYTEA NOT NULL        -- the object before the write, and what became of it (package recording); empty where it could not be read
);
CREATE INDEX revisions_object ON revisions (resource, namespace, name, revision);
CREATE INDEX revisions_at ON revisions (at);
CREATE INDEX revisions_trash ON revisions (revision) WHERE op = 'delete';

-- One row: the position of the recorder.
CREATE TABLE recording (
  id       SMALLINT PRIMARY KEY CHECK (id = 1),
  revision BIGINT NOT NULL, -- what is to be kept of changes up to this one is in revisions; 0: it was never begun
  bytes    BIGINT NOT NULL, -- the sum of revisions.size
  secret   BYTEA              -- the key of the hashes that stand for the values of Secrets; NULL before the first
);
INSERT INTO recording (id, revision, bytes) VALUES (1, 0, 0);
