-- The months between the first and the last archived day of which no day was ever archived, as YYYY-MM and comma-separated; NULL if
-- that is not recorded. Any other month without an object has lost it.

-- +goose Up
ALTER TABLE archive_states ADD COLUMN gaps TEXT;

-- +goose Down
ALTER TABLE archive_states DROP COLUMN gaps;
