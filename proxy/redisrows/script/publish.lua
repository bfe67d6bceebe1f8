-- Follows index.lua where all keys are on one server: deletes the evicted rows, writes the row, releases the lease and publishes the
-- event.
-- KEYS[4]  the lease
-- ARGV     (from 7) the token of the lease; the channel; the event if the row stays, and the one if not; the row, unless it is so large
--          that it was written just before: then it is among the evicted if it has no place in the index
-- Returns  whether the row stays, the bytes of all rows, and how many rows were evicted for the account's bound and for that of all.
if #evicted > 0 then call('UNLINK', unpack(evicted)) end
if fits and ARGV[11] then call('SET', key, ARGV[11], 'PX', lifetime) end
if redis.pcall('GET', KEYS[4]) == ARGV[7] then call('DEL', KEYS[4]) end
call('PUBLISH', ARGV[8], fits and ARGV[9] or ARGV[10])
return result
