-- Texts are compared by bytes, whatever the database's collation is. Times are microseconds since 1970.

-- The revisions of each namespace. The row without a name is for all of them; its lock gives the next revision.
CREATE TABLE headgate_namespaces (
    name   text COLLATE "C" PRIMARY KEY,
    last   bigint NOT NULL, -- the revision of its last change
    nodes  bigint NOT NULL, -- the last change of objects for nodes
    pruned bigint NOT NULL  -- the last pruned change
);

INSERT INTO headgate_namespaces VALUES ('', 0, 0, 0);

CREATE TABLE headgate_objects (
    kind      text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    id        text COLLATE "C" NOT NULL,
    revision  bigint NOT NULL,
    created   bigint NOT NULL,
    updated   bigint NOT NULL,
    actor     text   NOT NULL,
    body      text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, namespace, id)
);

CREATE INDEX headgate_objects_by_revision ON headgate_objects (namespace, revision);

CREATE TABLE headgate_changes (
    revision  bigint PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    time      bigint NOT NULL,
    actor     text   NOT NULL,
    address   text   NOT NULL,
    action    text   NOT NULL,
    note      text   NOT NULL
);

CREATE INDEX headgate_changes_by_namespace ON headgate_changes (namespace, revision);

-- The parts of each change: an object after it (NULL if deleted) and before it (NULL if it did not exist; was_revision
-- is 0 then).
CREATE TABLE headgate_ops (
    revision     bigint NOT NULL,
    place        bigint NOT NULL,
    namespace    text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    body         text,
    was_revision bigint NOT NULL,
    was_created  bigint NOT NULL,
    was_updated  bigint NOT NULL,
    was_actor    text   NOT NULL,
    was_body     text,
    PRIMARY KEY (revision, place)
);

CREATE INDEX headgate_ops_by_object ON headgate_ops (namespace, kind, id, revision);

CREATE TABLE headgate_states (
    bucket  text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    expires bigint NOT NULL,
    body    text   NOT NULL,
    PRIMARY KEY (bucket, id)
);

CREATE INDEX headgate_states_by_expiry ON headgate_states (expires);
