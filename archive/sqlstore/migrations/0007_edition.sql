-- The number of changes to served data by all processes. Caches of the other tables poll it to validate themselves.

-- +goose Up
CREATE TABLE edition (
    changes BIGINT NOT NULL
);
INSERT INTO edition (changes) VALUES (0);

-- +goose Down
DROP TABLE edition;
