-- The context of a property, as administrators configure it. place is the order of brand terms and page groups.

-- +goose Up
CREATE TABLE brand_terms (
    id          TEXT    NOT NULL PRIMARY KEY,
    property_id TEXT    NOT NULL REFERENCES properties (id),
    place       INTEGER NOT NULL,
    term        TEXT    NOT NULL,
    match_type  TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    UNIQUE (property_id, match_type, term)
);

-- rules is a JSON array of {type, value}.
CREATE TABLE page_groups (
    id          TEXT    NOT NULL PRIMARY KEY,
    property_id TEXT    NOT NULL REFERENCES properties (id),
    place       INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    rules       TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    UNIQUE (property_id, name)
);

CREATE TABLE annotations (
    id          TEXT    NOT NULL PRIMARY KEY,
    property_id TEXT    NOT NULL REFERENCES properties (id),
    day         INTEGER NOT NULL,
    title       TEXT    NOT NULL,
    note        TEXT    NOT NULL,
    color       TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL
);
CREATE INDEX annotations_property_day ON annotations (property_id, day);

-- +goose Down
DROP TABLE annotations;
DROP TABLE page_groups;
DROP TABLE brand_terms;
