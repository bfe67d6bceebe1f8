-- Adds to the counts of one account, if its upstream calls fit.
-- KEYS[1]  the hash of the account, see admit.lua
-- ARGV     the deadline, see admit.lua; the limit of calls a day, negative for none; upstream calls to add, negative for a
--          refund; requests to add to the hour; requests to add to the day; the hour and the day since 1970 that these are of,
--          0 for the current ones
-- Returns  seconds and microseconds of this server's clock, and nothing else after the deadline; then 0, or if the calls do
--          not fit the microseconds until the day ends.
local clock = redis.call('TIME')
local seconds, micros = tonumber(clock[1]), tonumber(clock[2])
local now = seconds * 1000000 + micros
if now > tonumber(ARGV[1]) then return {seconds, micros} end
local limit, calls = tonumber(ARGV[2]), tonumber(ARGV[3])
local ofHour, ofDay = tonumber(ARGV[6]), tonumber(ARGV[7])
local hour, day = math.floor(seconds / 3600), math.floor(seconds / 86400)
local stored = redis.call('HMGET', KEYS[1], 'h', 'hn', 'd', 'dn', 'cn')
local h, d = tonumber(stored[1] or 0), tonumber(stored[3] or 0)
local inHour, inDay, used = 0, 0, 0
if h >= hour then inHour = tonumber(stored[2]) else h = hour end
local newDay = d < day
if newDay then d = day else inDay, used = tonumber(stored[4]), tonumber(stored[5]) end
if limit >= 0 and used + calls > limit then
  return {seconds, micros, (d + 1) * 86400000000 - now}
end
-- Counts of a window that has ended are dropped.
if ofDay == 0 or ofDay == d then
  used, inDay = math.max(0, used + calls), inDay + tonumber(ARGV[5])
end
if ofHour == 0 or ofHour == h then inHour = inHour + tonumber(ARGV[4]) end
redis.call('HSET', KEYS[1], 'h', h, 'hn', inHour, 'd', d, 'dn', inDay, 'cn', used)
if newDay then redis.call('EXPIRE', KEYS[1], 172800) end
return {seconds, micros, 0}
