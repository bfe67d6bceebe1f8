-- Takes upstream calls from the minute of a property (a token bucket in the form of GCRA): all, or none.
-- KEYS[1]  when the bucket is full again, in seconds since 2017: the form of the library that did this before
-- ARGV     calls a minute; calls to take
-- Returns  0 if they were taken, else the microseconds until they fit. A damaged bucket is a drained one.
local perMinute, calls, epoch = tonumber(ARGV[1]), tonumber(ARGV[2]), 1483228800
local clock = redis.call('TIME')
local now = (clock[1] - epoch) * 1000000 + clock[2]
local interval = math.max(1, math.floor(60000000 / perMinute))
local capacity = perMinute * interval
local stored = redis.pcall('GET', KEYS[1])
local full = stored and (tonumber(stored) or math.huge) * 1000000 or 0
-- Clamp: if the clock moved back, or the limit shrank, the stored time can exceed that of a fully drained bucket. A comparison with
-- nan is false.
if not (full >= 0 and full <= now + capacity) then full = now + capacity end
local after = math.max(math.floor(full + 0.5), now) + calls * interval
local wait = after - now - capacity
local function store(time)
  redis.call('SET', KEYS[1], string.format('%.6f', time / 1000000), 'EX', math.ceil((time - now) / 1000000))
end
if wait <= 0 then
  store(after)
  return 0
end
if full == now + capacity then store(full) end
return wait
