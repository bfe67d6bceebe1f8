-- What the collector of the archive keeps here: who may work, and for each property what people and the API want to know of
-- its archive without looking into it. Days are counted from 1970-01-01. The truth about what is archived is in the
-- archive's own objects.

-- +goose Up
CREATE TABLE leases (
    name       TEXT   NOT NULL PRIMARY KEY,
    holder     TEXT   NOT NULL,
    expires_at BIGINT NOT NULL
);

CREATE TABLE archive_states (
    property_id  TEXT    NOT NULL PRIMARY KEY REFERENCES properties (id),
    first_day    INTEGER,
    last_day     INTEGER,
    collected_at BIGINT,
    rests_until  BIGINT,
    failures     INTEGER NOT NULL,
    note         TEXT    NOT NULL
);

-- +goose Down
DROP TABLE archive_states;
DROP TABLE leases;
