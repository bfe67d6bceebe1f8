-- What a replica has counted over all accounts, connections and properties, for the other replicas and for commands: when, in Unix
-- milliseconds, and the counts as JSON. There is at most one row.

-- +goose Up
CREATE TABLE status_look (
    id        INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    looked_at BIGINT  NOT NULL,
    counts    TEXT    NOT NULL
);

-- +goose Down
DROP TABLE status_look;
