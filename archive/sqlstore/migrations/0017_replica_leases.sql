-- The part of local_in_hour and local_in_day that Redis had leased to the replica. A version that does not know it leaves it 0.

-- +goose Up
ALTER TABLE replica_usage ADD COLUMN leased_in_hour INTEGER NOT NULL DEFAULT 0;
ALTER TABLE replica_usage ADD COLUMN leased_in_day INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE replica_usage DROP COLUMN leased_in_day;
ALTER TABLE replica_usage DROP COLUMN leased_in_hour;
