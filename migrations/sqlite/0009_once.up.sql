-- An object is stored once, in the row of changes of its last write. That row stays in the table, below the floor, until the object is
-- written again or deleted, and the change that did it is pruned. The table objects is now current: its column data is empty for such
-- an object. Objects of earlier releases, and of files that were filled by a restore or a move, have data; if no row of changes after
-- meta.floor has it as well, their next update has changes.prev_data. The view objects shows all objects as the table did.

-- In views that servers made, the name must go on to mean the view.
PRAGMA legacy_alter_table = ON;
ALTER TABLE objects RENAME TO current;
PRAGMA legacy_alter_table = OFF;

CREATE VIEW objects AS
SELECT o.resource, o.namespace, o.name, o.revision, o.expires,
  CASE o.data WHEN '' THEN c.fields ELSE o.fields END AS fields,
  coalesce(CASE o.data WHEN '' THEN c.data ELSE o.data END, '') AS data -- empty: the row of changes is lost
FROM current o LEFT JOIN changes c ON o.data = '' AND c.revision = o.revision;

-- Rows of the view are written as those of the table were. The server writes current and changes itself, except when it encrypts anew.
CREATE TRIGGER objects_insert INSTEAD OF INSERT ON objects BEGIN
  INSERT INTO current (resource, namespace, name, revision, expires, fields, data)
  VALUES (NEW.resource, NEW.namespace, NEW.name, NEW.revision, NEW.expires, NEW.fields, NEW.data);
END;
CREATE TRIGGER objects_update INSTEAD OF UPDATE ON objects BEGIN
  UPDATE changes SET fields = NEW.fields, data = NEW.data WHERE revision = OLD.revision AND NEW.revision = OLD.revision
    AND (SELECT o.data FROM current o WHERE o.resource = OLD.resource AND o.namespace = OLD.namespace AND o.name = OLD.name) = '';
  UPDATE current SET resource = NEW.resource, namespace = NEW.namespace, name = NEW.name, revision = NEW.revision, expires = NEW.expires,
    fields = CASE WHEN data = '' AND NEW.revision = OLD.revision THEN NULL ELSE NEW.fields END,
    data = CASE WHEN data = '' AND NEW.revision = OLD.revision THEN '' ELSE NEW.data END
  WHERE resource = OLD.resource AND namespace = OLD.namespace AND name = OLD.name;
END;
CREATE TRIGGER objects_delete INSTEAD OF DELETE ON objects BEGIN
  DELETE FROM current WHERE resource = OLD.resource AND namespace = OLD.namespace AND name = OLD.name;
END;

-- From here on, meta.history_bytes counts the changes after the floor.
UPDATE meta SET inline = revision, history_bytes = (SELECT coalesce(sum(size), 0) FROM changes WHERE changes.revision > meta.floor);
