-- The same statements run on SQLite and on PostgreSQL. Times are Unix milliseconds, days are counted from 1970-01-01, ids are
-- UUIDs in lower case, and values that must be compared by bytes are BYTEA, which SQLite stores as a BLOB.

-- +goose Up
CREATE TABLE accounts (
    id         TEXT    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    plan       TEXT    NOT NULL,
    until_day  INTEGER,
    created_at BIGINT  NOT NULL
);

CREATE TABLE people (
    id         TEXT   NOT NULL PRIMARY KEY,
    account_id TEXT   NOT NULL REFERENCES accounts (id),
    email      TEXT   NOT NULL UNIQUE,
    created_at BIGINT NOT NULL
);
CREATE INDEX people_account ON people (account_id);

CREATE TABLE workspaces (
    id         TEXT   NOT NULL PRIMARY KEY,
    account_id TEXT   NOT NULL REFERENCES accounts (id),
    name       TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (account_id, name)
);
CREATE INDEX workspaces_name ON workspaces (name);

CREATE TABLE memberships (
    person_id    TEXT NOT NULL REFERENCES people (id),
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    PRIMARY KEY (person_id, workspace_id)
);
CREATE INDEX memberships_workspace ON memberships (workspace_id);

-- credentials is the upstream's JSON, encrypted. revision is incremented when they are replaced.
CREATE TABLE connections (
    id           TEXT    NOT NULL PRIMARY KEY,
    workspace_id TEXT    NOT NULL REFERENCES workspaces (id),
    name         TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    identity     TEXT    NOT NULL,
    credentials  BYTEA   NOT NULL,
    revision     INTEGER NOT NULL,
    healthy      BOOLEAN NOT NULL,
    note         TEXT    NOT NULL,
    created_at   BIGINT  NOT NULL,
    UNIQUE (workspace_id, name),
    UNIQUE (id, workspace_id)
);
CREATE INDEX connections_name ON connections (name);

-- name_order is the sort key of properties: the display name in lower case, a zero byte and the id.
CREATE TABLE properties (
    id               TEXT    NOT NULL PRIMARY KEY,
    connection_id    TEXT    NOT NULL,
    workspace_id     TEXT    NOT NULL,
    site             TEXT    NOT NULL,
    host             TEXT    NOT NULL,
    type             TEXT    NOT NULL,
    display_name     TEXT    NOT NULL,
    name_order       BYTEA   NOT NULL,
    slug             TEXT    NOT NULL,
    permission_level TEXT    NOT NULL,
    starred          BOOLEAN NOT NULL,
    archived         BOOLEAN NOT NULL,
    access_note      TEXT    NOT NULL,
    created_at       BIGINT  NOT NULL,
    UNIQUE (connection_id, site),
    UNIQUE (workspace_id, slug),
    FOREIGN KEY (connection_id, workspace_id) REFERENCES connections (id, workspace_id)
);
CREATE INDEX properties_listed ON properties (workspace_id, archived, name_order, id);
CREATE INDEX properties_site ON properties (site);
CREATE INDEX properties_slug ON properties (slug);
CREATE INDEX properties_host ON properties (host);

CREATE TABLE api_keys (
    id           TEXT   NOT NULL PRIMARY KEY,
    person_id    TEXT   NOT NULL REFERENCES people (id),
    workspace_id TEXT   REFERENCES workspaces (id),
    name         TEXT   NOT NULL,
    scopes       TEXT   NOT NULL,
    hash         BYTEA  NOT NULL UNIQUE,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT,
    revoked_at   BIGINT
);
CREATE INDEX api_keys_person ON api_keys (person_id);

-- +goose Down
DROP TABLE api_keys;
DROP TABLE properties;
DROP TABLE connections;
DROP TABLE memberships;
DROP TABLE workspaces;
DROP TABLE people;
DROP TABLE accounts;
