-- Takes one URL inspection of a site from its day and from its minute (a token bucket in the form of GCRA), or from neither.
-- KEYS[1]  when the site's bucket is full again, in microseconds since 1970
-- KEYS[2]  how many inspections of the day have been taken
-- ARGV     inspections a day; the microseconds in which the bucket gets one token back; its capacity; how many inspections of the
--          day the caller knows to be taken: if there are fewer here, this server has lost the others
-- Returns  1 and 0 if one was taken; 0 and the microseconds until the next token; 0 and 0 if the day is used up. The day is
--          checked first, so that a caller does not wait for the minute only to find the day used up. Then how many inspections of
--          the day have been taken.
-- A damaged count is a lost one, and a damaged bucket a drained one.
local perDay, interval, capacity = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local stored = number(redis.pcall('GET', KEYS[2]) or 0, 2147483648) or -1
local taken = math.max(stored, tonumber(ARGV[4]))
-- A Pacific day lasts at most 25 hours.
if taken > stored then redis.call('SET', KEYS[2], taken, 'EX', 172800) end
if taken >= perDay then return {0, 0, taken} end
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
-- Clamp: if the clock moved back, the stored time can exceed that of a fully drained bucket.
local drained = now + capacity * interval
local full = math.min(math.max(number(redis.pcall('GET', KEYS[1]) or 0, drained + capacity * interval) or drained, now), drained)
local wait = full + interval - now - capacity * interval
if wait > 0 then return {0, wait, taken} end
-- A drained bucket is full within about a minute.
redis.call('SET', KEYS[1], string.format('%.0f', full + interval), 'EX', 120)
redis.call('SET', KEYS[2], taken + 1, 'EX', 172800)
return {1, 0, taken + 1}
