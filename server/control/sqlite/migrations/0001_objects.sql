-- How far each namespace has come; the one without a name is all of them. Times are microseconds since 1970, everywhere.
CREATE TABLE namespaces (
    name   TEXT    NOT NULL PRIMARY KEY,
    last   INTEGER NOT NULL, -- the revision of its last change
    nodes  INTEGER NOT NULL, -- the last that touched what nodes get
    pruned INTEGER NOT NULL  -- the last that was forgotten
) STRICT, WITHOUT ROWID;

INSERT INTO namespaces VALUES ('', 0, 0, 0);

CREATE TABLE objects (
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

CREATE INDEX objects_by_revision ON objects (namespace, revision);

CREATE TABLE changes (
    revision  INTEGER NOT NULL PRIMARY KEY,
    namespace TEXT    NOT NULL,
    time      INTEGER NOT NULL,
    actor     TEXT    NOT NULL,
    address   TEXT    NOT NULL,
    action    TEXT    NOT NULL,
    note      TEXT    NOT NULL
) STRICT;

CREATE INDEX changes_by_namespace ON changes (namespace, revision);

-- What a change did to each object: what it became (nothing, if it was deleted), and what it was (nothing, if it was not
-- there, and was_revision is 0 then).
CREATE TABLE ops (
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

CREATE INDEX ops_by_object ON ops (namespace, kind, id, revision);

CREATE TABLE states (
    bucket  TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    expires INTEGER NOT NULL,
    body    TEXT    NOT NULL,
    PRIMARY KEY (bucket, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX states_by_expiry ON states (expires);
