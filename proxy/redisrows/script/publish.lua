-- Follows index.lua where all keys are on one server: deletes the evicted rows, writes the row, releases the lease and publishes
-- the event, in this order.
-- KEYS[4]  the lease
-- ARGV     (from 7) the row's value; the token of the lease; the channel; the event if the row is written, and the one if not
-- Returns  whether the row was written, the bytes of all rows, and how many rows were evicted for the account's bound and for
--          that of all.
if #evicted > 0 then call('UNLINK', unpack(evicted)) end
if fits then call('SET', key, ARGV[7], 'PX', lifetime) end
if call('GET', KEYS[4]) == ARGV[8] then call('DEL', KEYS[4]) end
call('PUBLISH', ARGV[9], fits and ARGV[10] or ARGV[11])
return result
