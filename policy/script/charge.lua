-- Adds to the counts of one account, if the upstream calls fit.
-- KEYS[1]  the hash of the account, as admit.lua has it
-- ARGV     the last moment at which this may still be done, as there; the ceiling of calls a day, below zero for none;
--          upstream calls to add, below zero to give back; requests to add to the hour; requests to add to the day; hour and
--          day since 1970 that these are of, 0 for the present ones
-- Returns  seconds and microseconds of this server's clock, and nothing more if it is too late; then 0, or if the calls do
--          not fit the microseconds until the day ends.
local clock = redis.call('TIME')
local seconds, micros = tonumber(clock[1]), tonumber(clock[2])
local now = seconds * 1000000 + micros
if now > tonumber(ARGV[1]) then return {seconds, micros} end
local ceiling, calls = tonumber(ARGV[2]), tonumber(ARGV[3])
local ofHour, ofDay = tonumber(ARGV[6]), tonumber(ARGV[7])
local hour, day = math.floor(seconds / 3600), math.floor(seconds / 86400)
local known = redis.call('HMGET', KEYS[1], 'h', 'hn', 'd', 'dn', 'cn')
local h, d = tonumber(known[1] or 0), tonumber(known[3] or 0)
local inHour, inDay, used = 0, 0, 0
if h >= hour then inHour = tonumber(known[2]) else h = hour end
local newDay = d < day
if newDay then d = day else inDay, used = tonumber(known[4]), tonumber(known[5]) end
if ceiling >= 0 and used + calls > ceiling then
  return {seconds, micros, (d + 1) * 86400000000 - now}
end
-- What belongs to a window that is over is no longer anybody's business.
if ofDay == 0 or ofDay == d then
  used, inDay = math.max(0, used + calls), inDay + tonumber(ARGV[5])
end
if ofHour == 0 or ofHour == h then inHour = inHour + tonumber(ARGV[4]) end
redis.call('HSET', KEYS[1], 'h', h, 'hn', inHour, 'd', d, 'dn', inDay, 'cn', used)
if newDay then redis.call('EXPIRE', KEYS[1], 172800) end
return {seconds, micros, 0}
