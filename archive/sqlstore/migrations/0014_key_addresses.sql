-- The networks that a key can be used from, in CIDR notation, separated by spaces; empty: any address.

-- +goose Up
ALTER TABLE api_keys ADD COLUMN allowed_from TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE api_keys DROP COLUMN allowed_from;
