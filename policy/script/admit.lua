-- Admits requests of many keys of many accounts: of each key as many as fit, each request wholly or not at all.
-- KEYS[i]  the hash of account i
-- ARGV     the deadline, in microseconds since 1970: after it the caller has decided without Redis, and this must do nothing;
--          the field of the calling replica's own requests. Then for each account: requests a minute and key, requests an
--          hour, requests a day (both -1: its requests count in the minute only), what the replica has admitted today and
--          the most that it knows to be admitted today (both with their day, as b:REPLICA below), the number n of its keys in
--          this call, and n times a key id and its number of requests.
-- Returns  seconds and microseconds of this server's clock, and nothing else after the deadline. Then for each account its
--          requests of the hour and of the day so far, its upstream calls of the day, and what it had of the calling replica, as
--          b:REPLICA below; and for each of its keys how many requests fit, 0 or why the others do not (4 times the microseconds
--          until one would fit, plus 1 for the minute, 2 for the hour, 3 for the day), and when its bucket is full again. For an
--          account of which this server has less than the replica knows only -1: the replica restores the counts, see
--          restore.lua, and asks again.
-- The hash  h, d: hour and day since 1970; hn, dn, cn: requests of that hour and day, upstream calls of that day;
--          m:KEY: the token bucket of KEY in the form of GCRA: when it is full again, in microseconds since 1970;
--          b:REPLICA: the requests that a replica has counted on its day, as day * 2^31 + requests. Others: see restore.lua.
--          What is damaged: see account.lua. A damaged m:KEY is a drained bucket, which is full again within a minute.
local call, max, min, floor, format = redis.call, math.max, math.min, math.floor, string.format
-- Format numbers here: Redis would print each as a float of 17 digits, which takes several times as long.
local clock = call('TIME')
local seconds, micros = tonumber(clock[1]), tonumber(clock[2])
local now = seconds * 1000000 + micros
local out, o = {seconds, micros}, 2
if now > tonumber(ARGV[1]) then return out end
local ownField = ARGV[2]
local hour, day = floor(seconds / 3600), floor(seconds / 86400)
local at, longest = 3, 9007199254740992

-- On an account's first request of a day, delete full buckets and what replicas counted on earlier days: they would pile up.
local function sweep(key)
  local all = call('HGETALL', key)
  for f = 1, #all, 2 do
    local isBucket, value = string.sub(all[f], 1, 2) == 'm:', number(all[f + 1], longest)
    if isBucket and value and value <= now or not isBucket and string.find(all[f], ':') and not (value and value >= day * window) then
      call('HDEL', key, all[f])
    end
  end
end

-- The arguments of HMGET and HSET, made once for all accounts: a table costs as much as a command.
local fields, set = {'h', 'hn', 'd', 'dn', 'cn', ownField}, {'hn', 0, 'dn', 0, ownField, 0}

for i = 1, #KEYS do
  local key, perHour, perDay, n = KEYS[i], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 5])
  local perMinute, own, known = tonumber(ARGV[at]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local counted = perHour >= 0
  if not counted then perHour, perDay = math.huge, math.huge end
  local interval = max(1, floor(60000000 / max(perMinute, 1)))
  local capacity = perMinute * interval
  at = at + 6
  for k = 1, n do fields[6 + k] = 'm:' .. ARGV[at + 2 * k - 2] end
  local stored, h, inHour, d, inDay, calls = read(key, fields, 6 + n, 1, hour, day)
  local newHour, newDay, mine = h < hour, d < day, stored[6]
  h, d = max(h, hour), max(d, day)
  known = known - d * window
  if mine < own or known > inDay and known < window then
    out[o + 1] = -1
    o, at = o + 1, at + 2 * n
  else
    out[o + 1], out[o + 2], out[o + 3], out[o + 4] = inHour, inDay, calls, mine
    o = o + 4
    local s, admitted = 6, 0
    for k = 1, n do
      local count, full = tonumber(ARGV[at + 1]), number(stored[6 + k] or 0, longest) or longest
      at = at + 2
      -- Clamp: if the clock moved back, the stored time can exceed that of a fully drained bucket.
      local before = min(max(full, now), now + capacity)
      local fits = max(0, min(count, floor((now + capacity - before) / interval), perHour - inHour, perDay - inDay))
      if counted then inHour, inDay, admitted = inHour + fits, inDay + fits, admitted + fits end
      local after = before + fits * interval
      if fits > 0 or full > after then
        set[s + 1], set[s + 2] = fields[6 + k], format('%d', after)
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
      out[o + 1], out[o + 2], out[o + 3] = fits, refusal, after
      o = o + 3
    end
    if s > 6 then
      set[2], set[4] = format('%d', inHour), format('%d', inDay)
      set[6] = format('%d', max(mine, d * window) + admitted)
      if newDay then sweep(key) end
      if newHour then
        set[s + 1], set[s + 2] = 'h', h
        s = s + 2
      end
      if newDay then
        set[s + 1], set[s + 2], set[s + 3], set[s + 4] = 'd', d, 'cn', 0
        s = s + 4
      end
      call('HSET', key, unpack(set, 1, s))
      if newDay then call('EXPIRE', key, 172800) end
    end
  end
end
return out
