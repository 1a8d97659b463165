-- Texts are compared by their bytes, whatever the database's own order is. Times are microseconds since 1970.

-- How far each namespace has come; the one without a name is all of them, and who locks its row has the next revision.
CREATE TABLE headgate_namespaces (
    name   text COLLATE "C" PRIMARY KEY,
    last   bigint NOT NULL, -- the revision of its last change
    nodes  bigint NOT NULL, -- the last that touched what nodes get
    pruned bigint NOT NULL  -- the last that was forgotten
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

-- What a change did to each object: what it became (nothing, if it was deleted), and what it was (nothing, if it was not
-- there, and was_revision is 0 then).
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
