-- Adds to the counts of one account, if the upstream calls fit.
-- KEYS[1]  the hash of the account, as admit.lua has it
-- ARGV     upstream calls to add, below zero to give back; the ceiling of calls a day, 0 for none; hour and day since 1970
--          that the additions are of, 0 for the present ones; requests to add to the hour; requests to add to the day
-- Returns  1 and the seconds and microseconds of this server's clock, or 0 and these.
local clock = redis.call('TIME')
local seconds = tonumber(clock[1])
local hour, day = math.floor(seconds / 3600), math.floor(seconds / 86400)
local calls, ceiling = tonumber(ARGV[1]), tonumber(ARGV[2])
local ofHour, ofDay = tonumber(ARGV[3]), tonumber(ARGV[4])
local known = redis.call('HMGET', KEYS[1], 'h', 'd', 'cn')
local h, d, used = tonumber(known[1] or 0), tonumber(known[2] or 0), tonumber(known[3] or 0)
if h < hour then
  redis.call('HSET', KEYS[1], 'h', hour, 'hn', 0)
  h = hour
end
if d < day then
  redis.call('HSET', KEYS[1], 'd', day, 'dn', 0, 'cn', 0)
  redis.call('EXPIRE', KEYS[1], 172800)
  d, used = day, 0
end
-- What belongs to a window that is over is no longer anybody's business.
if ofDay == 0 or ofDay == d then
  if ceiling > 0 and used + calls > ceiling then
    return {0, seconds, tonumber(clock[2])}
  end
  if calls < 0 and used + calls < 0 then calls = -used end
  redis.call('HINCRBY', KEYS[1], 'cn', calls)
  redis.call('HINCRBY', KEYS[1], 'dn', ARGV[6])
end
if ofHour == 0 or ofHour == h then
  redis.call('HINCRBY', KEYS[1], 'hn', ARGV[5])
end
return {1, seconds, tonumber(clock[2])}
