-- The hour in which a key was last used, in Unix milliseconds; NULL if it was not used since it is recorded.

-- +goose Up
ALTER TABLE api_keys ADD COLUMN last_used_at BIGINT;

-- +goose Down
ALTER TABLE api_keys DROP COLUMN last_used_at;
