-- Admits one request and charges it to all three limits, or charges none of them.
-- KEYS[1]  the hash of the account: hour and day (numbered since 1970) with their counters, and for each key the time at which
--          its bucket is full, in microseconds since 1970
-- ARGV     now in milliseconds since 1970, the key, the limits per minute and key, per hour, and per day
-- Returns  the requests left in the day, or for a rejection -(4 * seconds to wait + limit), where limit is 1 for the minute,
--          2 for the hour and 3 for the day
local call, ceil, floor, max = redis.call, math.ceil, math.floor, math.max
local now, key = tonumber(ARGV[1]) * 1000, ARGV[2]
local perMinute, perHour, perDay = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local known = call('HMGET', KEYS[1], 'hour', 'in_hour', 'day', 'in_day', key)
local hour, day, inHour, inDay = floor(now / 3600000000), floor(now / 86400000000), 0, 0
-- The workers' clocks differ a little, so a window is only replaced by a later one.
local began = {hour = tonumber(known[1] or 0), day = tonumber(known[3] or 0)}
if began.hour >= hour then hour, inHour = began.hour, tonumber(known[2]) end
if began.day >= day then day, inDay = began.day, tonumber(known[4]) end
local interval = max(1, floor(60000000 / perMinute))
local full = max(tonumber(known[5] or 0), now) + interval

local wait, refusal = full - now - perMinute * interval, 0
if wait > 0 then refusal = 1 end
if inHour >= perHour and (hour + 1) * 3600000000 - now >= wait then wait, refusal = (hour + 1) * 3600000000 - now, 2 end
if inDay >= perDay and (day + 1) * 86400000000 - now >= wait then wait, refusal = (day + 1) * 86400000000 - now, 3 end
if refusal > 0 then return -(4 * ceil(wait / 1000000) + refusal) end

call('HSET', KEYS[1], 'hour', hour, 'in_hour', inHour + 1, 'day', day, 'in_day', inDay + 1, key, full)
if day > began.day then call('EXPIRE', KEYS[1], 172800) end
return perDay - inDay - 1
