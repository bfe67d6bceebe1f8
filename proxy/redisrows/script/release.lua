-- Releases a lease, unless another replica has it, and publishes an event.
-- KEYS[1]  the lease
-- ARGV     the token of the lease; the channel; the event
if redis.pcall('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return redis.call('PUBLISH', ARGV[2], ARGV[3])
