-- Admits requests of many keys of many accounts: of each key as many as fit, each request wholly or not at all.
-- KEYS[i]  the hash of account i
-- ARGV     the deadline, in microseconds since 1970: after it the caller has decided without Redis, and this must do nothing.
--          Then for each account: requests a minute and key, requests an hour, requests a day (both -1: its requests count
--          in the minute only), the number n of its keys in this call, and n times a key id and its number of requests.
-- Returns  seconds and microseconds of this server's clock, and nothing else after the deadline. Then for each account its
--          requests of the hour and of the day so far, and its upstream calls of the day; and for each of its keys how many
--          requests fit, and 0 or why the others do not: 4 times the microseconds until one would fit, plus 1 for the
--          minute, 2 for the hour, 3 for the day.
-- The hash  h, d: hour and day since 1970; hn, dn, cn: requests of that hour and day, upstream calls of that day;
--          m:KEY: the token bucket of KEY in the form of GCRA: when it is full again, in microseconds since 1970.
local call, max, min, floor, format = redis.call, math.max, math.min, math.floor, string.format
-- Format numbers here: Redis would print each as a float of 17 digits, which takes several times as long.
local clock = call('TIME')
local seconds, micros = tonumber(clock[1]), tonumber(clock[2])
local now = seconds * 1000000 + micros
local out, o = {seconds, micros}, 2
if now > tonumber(ARGV[1]) then return out end
local hour, day = floor(seconds / 3600), floor(seconds / 86400)
local at = 2

-- On an account's first request of a day, delete full buckets: those of old keys would pile up.
local function sweep(key)
  local all = call('HGETALL', key)
  for f = 1, #all, 2 do
    if string.sub(all[f], 1, 2) == 'm:' and tonumber(all[f + 1]) <= now then call('HDEL', key, all[f]) end
  end
end

for i = 1, #KEYS do
  local key, perHour, perDay, n = KEYS[i], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local perMinute = tonumber(ARGV[at])
  local counted = perHour >= 0
  if not counted then perHour, perDay = math.huge, math.huge end
  local interval = max(1, floor(60000000 / max(perMinute, 1)))
  local capacity = perMinute * interval
  at = at + 4
  local fields = {'h', 'hn', 'd', 'dn', 'cn'}
  for k = 1, n do fields[5 + k] = 'm:' .. ARGV[at + 2 * k - 2] end
  local stored = call('HMGET', key, unpack(fields))
  -- A window that has ended counts nothing. One ahead of this clock, after a failover, still counts.
  local h, d = tonumber(stored[1] or 0), tonumber(stored[3] or 0)
  local inHour, inDay, calls = 0, 0, 0
  local newHour, newDay = h < hour, d < day
  if newHour then h = hour else inHour = tonumber(stored[2]) end
  if newDay then d = day else inDay, calls = tonumber(stored[4]), tonumber(stored[5]) end
  out[o + 1], out[o + 2], out[o + 3] = inHour, inDay, calls
  o = o + 3
  local set, s = {'hn', 0, 'dn', 0}, 4
  for k = 1, n do
    local count, full = tonumber(ARGV[at + 1]), tonumber(stored[5 + k] or 0)
    at = at + 2
    -- Clamp: if the clock moved back, the stored time can exceed that of a fully drained bucket.
    local before = min(max(full, now), now + capacity)
    local fits = max(0, min(count, floor((now + capacity - before) / interval), perHour - inHour, perDay - inDay))
    if counted then inHour, inDay = inHour + fits, inDay + fits end
    local after = before + fits * interval
    if fits > 0 or full > after then
      set[s + 1], set[s + 2] = fields[5 + k], format('%d', after)
      s = s + 2
    end
    local refusal = 0
    if fits < count then
      local wait = max(after + interval - now - capacity, 0)
      if wait > 0 then refusal = 4 * wait + 1 end
      -- Of several exhausted ceilings, report the one that lasts longest, so that a client that waits does not hit the next.
      if inHour >= perHour then
        local left = (h + 1) * 3600000000 - now
        if left >= wait then refusal = 4 * left + 2 end
      end
      if inDay >= perDay then
        local left = (d + 1) * 86400000000 - now
        if left >= wait then refusal = 4 * left + 3 end
      end
    end
    out[o + 1], out[o + 2] = fits, refusal
    o = o + 2
  end
  if s > 4 then
    set[2], set[4] = format('%d', inHour), format('%d', inDay)
    if newDay then sweep(key) end
    if newHour then
      set[s + 1], set[s + 2] = 'h', h
      s = s + 2
    end
    if newDay then
      set[s + 1], set[s + 2], set[s + 3], set[s + 4] = 'd', d, 'cn', 0
    end
    call('HSET', key, unpack(set))
    if newDay then call('EXPIRE', key, 172800) end
  end
end
return out
