-- How often what is served was changed, by whichever process: who remembers what the other tables say asks for this one number.

-- +goose Up
CREATE TABLE edition (
    changes BIGINT NOT NULL
);
INSERT INTO edition (changes) VALUES (0);

-- +goose Down
DROP TABLE edition;
