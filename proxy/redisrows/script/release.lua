-- Writes a row if there is one, releases a lease, unless another replica has it, and publishes an event.
-- KEYS     the lease; the row
-- ARGV     the token of the lease; the channel; the event; the milliseconds after which the row expires, and the row
if ARGV[5] then redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4]) end
if redis.pcall('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return redis.call('PUBLISH', ARGV[2], ARGV[3])
