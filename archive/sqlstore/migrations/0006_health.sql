-- Since when a connection has not worked, in Unix milliseconds; NULL while it does, and when that was not written down.

-- +goose Up
ALTER TABLE connections ADD COLUMN unhealthy_since BIGINT;

-- +goose Down
ALTER TABLE connections DROP COLUMN unhealthy_since;
