-- The revisions of each namespace. The row without a name is for all of them. Times are microseconds since 1970.
CREATE TABLE headgate_namespaces (
    name   TEXT    NOT NULL PRIMARY KEY,
    last   INTEGER NOT NULL, -- the revision of its last change
    nodes  INTEGER NOT NULL, -- the last change of objects for nodes
    pruned INTEGER NOT NULL  -- the last pruned change
) STRICT, WITHOUT ROWID;

INSERT INTO headgate_namespaces VALUES ('', 0, 0, 0);

CREATE TABLE headgate_objects (
    kind      TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    revision  INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    updated   INTEGER NOT NULL,
    actor     TEXT    NOT NULL,
    body      TEXT    NOT NULL,
    PRIMARY KEY (kind, namespace, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX headgate_objects_by_revision ON headgate_objects (namespace, revision);

CREATE TABLE headgate_changes (
    revision  INTEGER NOT NULL PRIMARY KEY,
    namespace TEXT    NOT NULL,
    time      INTEGER NOT NULL,
    actor     TEXT    NOT NULL,
    address   TEXT    NOT NULL,
    action    TEXT    NOT NULL,
    note      TEXT    NOT NULL
) STRICT;

CREATE INDEX headgate_changes_by_namespace ON headgate_changes (namespace, revision);

-- The parts of each change: an object after it (NULL if deleted) and before it (NULL if it did not exist; was_revision
-- is 0 then).
CREATE TABLE headgate_ops (
    revision     INTEGER NOT NULL,
    place        INTEGER NOT NULL,
    namespace    TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    body         TEXT,
    was_revision INTEGER NOT NULL,
    was_created  INTEGER NOT NULL,
    was_updated  INTEGER NOT NULL,
    was_actor    TEXT    NOT NULL,
    was_body     TEXT,
    PRIMARY KEY (revision, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX headgate_ops_by_object ON headgate_ops (namespace, kind, id, revision);

CREATE TABLE headgate_states (
    bucket  TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    expires INTEGER NOT NULL,
    body    TEXT    NOT NULL,
    PRIMARY KEY (bucket, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX headgate_states_by_expiry ON headgate_states (expires);
