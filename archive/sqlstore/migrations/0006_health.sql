-- When a connection became unhealthy, in Unix milliseconds; NULL if it is healthy, or if the time was not recorded.

-- +goose Up
ALTER TABLE connections ADD COLUMN unhealthy_since BIGINT;

-- +goose Down
ALTER TABLE connections DROP COLUMN unhealthy_since;
