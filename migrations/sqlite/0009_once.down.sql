DROP VIEW objects;
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
INSERT INTO objects (resource, namespace, name, revision, expires, fields, data)
SELECT o.resource, o.namespace, o.name, o.revision, o.expires, CASE o.data WHEN '' THEN c.fields ELSE o.fields END, CASE o.data WHEN '' THEN c.data ELSE o.data END
FROM current o LEFT JOIN changes c ON o.data = '' AND c.revision = o.revision;
DROP TABLE current;
CREATE INDEX objects_expires ON objects (expires) WHERE expires IS NOT NULL;
DELETE FROM changes WHERE revision <= (SELECT floor FROM meta)
AND revision NOT IN (SELECT c.prev_revision FROM changes c WHERE c.revision > (SELECT floor FROM meta) AND c.prev_revision IS NOT NULL);
UPDATE meta SET history_bytes = (SELECT coalesce(sum(size), 0) FROM changes);
