-- Admits requests of many keys of many accounts at once, each of them wholly or not at all.
-- KEYS[i]  the hash of account i
-- ARGV     the last moment, in microseconds since 1970, at which this may still be done: who asked decides alone after it.
--          Then for each account: requests a minute and key, requests an hour, requests a day, the number n of its
--          requests, and the n key ids.
-- Returns  seconds and microseconds of this server's clock, and nothing more if it is too late. Then for each account its
--          requests of the hour and of the day before, and its upstream calls of the day; and for each of its requests 0,
--          or what refuses it: 4 times the microseconds until it would fit, plus 1 for the minute, 2 the hour, 3 the day.
-- The hash  h, d: hour and day since 1970; hn, dn, cn: requests of that hour and day, upstream calls of that day;
--          m:KEY: when the bucket of KEY is full again, in microseconds since 1970.
local call, max, min, floor = redis.call, math.max, math.min, math.floor
local clock = call('TIME')
local seconds, micros = tonumber(clock[1]), tonumber(clock[2])
local now = seconds * 1000000 + micros
local out, o = {seconds, micros}, 2
if now > tonumber(ARGV[1]) then return out end
local hour, day = floor(seconds / 3600), floor(seconds / 86400)
local at = 2

-- On an account's first request of a day, forget the keys whose buckets are full: those of long ago would pile up.
local function sweep(key)
  local all = call('HGETALL', key)
  for f = 1, #all, 2 do
    if string.sub(all[f], 1, 2) == 'm:' and tonumber(all[f + 1]) <= now then call('HDEL', key, all[f]) end
  end
end

for i = 1, #KEYS do
  local key, perHour, perDay, n = KEYS[i], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local perMinute = tonumber(ARGV[at])
  local interval = max(1, floor(60000000 / max(perMinute, 1)))
  local capacity = perMinute * interval
  at = at + 4
  local fields, place, distinct = {'h', 'hn', 'd', 'dn', 'cn'}, {}, 5
  for j = at, at + n - 1 do
    if not place[ARGV[j]] then
      distinct = distinct + 1
      place[ARGV[j]] = distinct
      fields[distinct] = 'm:' .. ARGV[j]
    end
  end
  local known = call('HMGET', key, unpack(fields))
  -- A window that is over counts nothing; one ahead of this clock, after a failover, still counts.
  local h, d = tonumber(known[1] or 0), tonumber(known[3] or 0)
  local inHour, inDay, calls = 0, 0, 0
  local newHour, newDay = h < hour, d < day
  if newHour then h = hour else inHour = tonumber(known[2]) end
  if newDay then d = day else inDay, calls = tonumber(known[4]), tonumber(known[5]) end
  out[o + 1], out[o + 2], out[o + 3] = inHour, inDay, calls
  o = o + 3
  local dirty, full = false, {}
  for j = at, at + n - 1 do
    local p = place[ARGV[j]]
    local before = max(full[p] or tonumber(known[p] or 0), now)
    if before > now + capacity then
      -- No bucket is emptier than empty, which one of the future seems to be when the clock was set back.
      before, full[p], dirty = now + capacity, now + capacity, true
    end
    local after = before + interval
    local wait = max(after - now - capacity, 0)
    local refusal = 0
    if wait > 0 then refusal = 4 * wait + 1 end
    -- The ceiling that lasts longest is named, so that nobody waits for one only to run into the next.
    if inHour >= perHour then
      local left = (h + 1) * 3600000000 - now
      if left >= wait then refusal = 4 * left + 2 end
    end
    if inDay >= perDay then
      local left = (d + 1) * 86400000000 - now
      if left >= wait then refusal = 4 * left + 3 end
    end
    if refusal == 0 then
      full[p] = after
      inHour, inDay, dirty = inHour + 1, inDay + 1, true
    end
    o = o + 1
    out[o] = refusal
  end
  at = at + n
  if dirty then
    if newDay then sweep(key) end
    local set, s = {'hn', inHour, 'dn', inDay}, 4
    if newHour then
      set[5], set[6], s = 'h', h, 6
    end
    if newDay then
      set[s + 1], set[s + 2], set[s + 3], set[s + 4] = 'd', d, 'cn', 0
      s = s + 4
    end
    for p, after in pairs(full) do
      set[s + 1], set[s + 2] = fields[p], after
      s = s + 2
    end
    call('HSET', key, unpack(set))
    if newDay then call('EXPIRE', key, 172800) end
  end
end
return out
