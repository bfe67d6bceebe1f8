-- Follows index.lua where all keys are on one server: deletes the evicted rows, releases the lease and publishes the event. The row
-- was written just before, since a value that passes through Lua is copied; without a place in the index it is among the evicted.
-- KEYS[4]  the lease
-- ARGV     (from 7) the token of the lease; the channel; the event if the row stays, and the one if not
-- Returns  whether the row stays, the bytes of all rows, and how many rows were evicted for the account's bound and for that of all.
if #evicted > 0 then call('UNLINK', unpack(evicted)) end
if redis.pcall('GET', KEYS[4]) == ARGV[7] then call('DEL', KEYS[4]) end
call('PUBLISH', ARGV[8], fits and ARGV[9] or ARGV[10])
return result
