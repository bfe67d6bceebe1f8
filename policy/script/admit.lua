-- Admits requests of many keys of many accounts: of each key as many as fit, each request wholly or not at all.
-- KEYS[i]  the hash of account i
-- ARGV     the deadline, in microseconds since 1970: after it the caller has decided without Redis, and this must do nothing;
--          the field of the calling replica's own requests. Then for each account: requests a minute and key, requests an
--          hour, requests a day (both -1: its requests count in the minute only), what the replica has admitted today and
--          the most that it knows to be admitted today (both with their day, as b:REPLICA below), how much of what it has admitted
--          is of its leases and not known here, of today and of the hour (as hour * 2^31 + n), the number n of its keys in
--          this call, and n times a key id, its number of requests, and the requests to lease, negative to return.
-- Returns  seconds and microseconds of this server's clock, and nothing else after the deadline. Then for each account its
--          requests of the hour and of the day so far, its upstream calls of the day, and what it had of the calling replica, as
--          b:REPLICA below; and for each of its keys how many requests fit, 0 or why the others do not (8 times the microseconds
--          until one would fit, plus 1 for the minute, 2 for the hour, 3 for the day; 4 and 5 for hour and day if one would fit
--          without leases), when its bucket is full again, and how many are leased, negative if returned. For an account of which
--          this server has less than the replica knows only -1: the replica restores the counts, see restore.lua, and asks again.
-- The hash  h, d: hour and day since 1970; hn, dn, cn: requests of that hour and day, upstream calls of that day;
--          m:KEY: the token bucket of KEY in the form of GCRA: when it is full again, in microseconds since 1970;
--          ln, le: how many requests replicas have leased and not reported as used, and when these lapse, in microseconds since 1970;
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
local at = 3

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

-- A lease is a 64th of what is left of each limit, so that it is hardly ever in the way, and at least 8 requests, or not worth it. It
-- lapses a second after the last one was granted: later than any replica uses or returns it, see lease.go.
local leaseShare, leastLease, leaseLife = 64, 8, 1000000

-- lapse stores counts that include leases that have lapsed: used by a replica that is not known, until it restores them.
local function lapse(key, h, inHour, ofHour, d, inDay, ofDay)
  local was = call('HMGET', key, 'w:h', 'w:d')
  local function unattributed(value, ofWindow, n) return format('%d', max(number(value or 0, longest) or 0, ofWindow * window) + n) end
  call('HSET', key, 'h', h, 'hn', format('%d', inHour), 'dn', format('%d', inDay), 'ln', 0, 'w:h', unattributed(was[1], h, ofHour),
    'w:d', unattributed(was[2], d, ofDay))
end

-- longer returns the refusal of the hour or the day and its wait, if that is no shorter than the wait so far. If only leases are in the
-- way, they are used or returned within their time.
local function longer(refusal, wait, left, byLeases, ceiling)
  if byLeases then left, ceiling = min(left, leaseLife), ceiling + 2 end
  if left < wait then return refusal, wait end
  return 8 * left + ceiling, left
end

-- The arguments of HMGET and HSET, made once for all accounts: a table costs as much as a command.
local fields, set = {'h', 'hn', 'd', 'dn', 'cn', ownField, 'ln', 'le'}, {'hn', 0, 'dn', 0, ownField, 0, 'ln', 0}

for i = 1, #KEYS do
  local key, perHour, perDay, n = KEYS[i], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 7])
  local perMinute, own, known = tonumber(ARGV[at]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local leasedDay, leasedHour = tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
  local counted = perHour >= 0
  if not counted then perHour, perDay = math.huge, math.huge end
  local interval = max(1, floor(60000000 / max(perMinute, 1)))
  local capacity = perMinute * interval
  at = at + 8
  for k = 1, n do fields[8 + k] = 'm:' .. ARGV[at + 3 * k - 3] end
  local stored, h, inHour, d, inDay, calls = read(key, fields, 8 + n, 1, hour, day)
  local newHour, newDay, mine = h < hour, d < day, stored[6]
  h, d = max(h, hour), max(d, day)
  known = known - d * window
  local held, ofDay, ofHour = leases(stored[7], stored[8], newDay, h, now)
  if ofDay > 0 then
    inHour, inDay = inHour + ofHour, inDay + ofDay
    lapse(key, h, inHour, ofHour, d, inDay, ofDay)
  end
  -- What the replica has admitted from its leases is used, not lost.
  local reported = max(0, own - max(mine, d * window))
  if reported > min(leasedDay, held) or known > inDay + reported and known < window then
    out[o + 1] = -1
    o, at = o + 1, at + 3 * n
  else
    local changed = reported > 0
    if changed then
      inDay, held, mine = inDay + reported, held - reported, own
      inHour = inHour + max(0, min(reported, leasedHour - h * window))
    end
    out[o + 1], out[o + 2], out[o + 3], out[o + 4] = inHour, inDay, calls, mine
    o = o + 4
    local s, admitted, ends = 8, 0
    for k = 1, n do
      local count, lease = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
      local full = number(stored[8 + k] or 0, longest) or longest
      at = at + 3
      -- What is returned makes room for these requests: without it, some would neither fit nor have a ceiling that refuses them.
      local leased = min(0, max(lease, -held))
      held = held + leased
      -- Clamp: if the clock moved back, the stored time can exceed that of a fully drained bucket.
      local before = max(min(max(full, now), now + capacity) + leased * interval, now)
      local fits = max(0, min(count, floor((now + capacity - before) / interval), perHour - inHour - held, perDay - inDay - held))
      if counted then inHour, inDay, admitted = inHour + fits, inDay + fits, admitted + fits end
      local after = before + fits * interval
      if lease > 0 then
        local left = min((now + capacity - after) / interval, perHour - inHour - held, perDay - inDay - held)
        leased = min(lease, floor(left / leaseShare))
        if leased < leastLease then leased = 0 end
        if leased > 0 then held, after, ends = held + leased, after + leased * interval, now + leaseLife end
      end
      changed = changed or leased ~= 0
      if fits > 0 or leased ~= 0 or full > after then
        set[s + 1], set[s + 2] = fields[8 + k], format('%d', after)
        s = s + 2
      end
      local refusal = 0
      if fits < count then
        local wait = max(after + interval - now - capacity, 0)
        if wait > 0 then refusal = 8 * wait + 1 end
        -- Of several exhausted ceilings, report the one that lasts longest, so that a client that waits does not hit the next.
        if inHour + held >= perHour then refusal, wait = longer(refusal, wait, (h + 1) * 3600000000 - now, inHour < perHour, 2) end
        if inDay + held >= perDay then refusal = longer(refusal, wait, (d + 1) * 86400000000 - now, inDay < perDay, 3) end
      end
      out[o + 1], out[o + 2], out[o + 3], out[o + 4] = fits, refusal, after, leased
      o = o + 4
    end
    if s > 8 or changed then
      set[2], set[4] = format('%d', inHour), format('%d', inDay)
      set[6], set[8] = format('%d', max(mine, d * window) + admitted), format('%d', held)
      if ends then
        set[s + 1], set[s + 2] = 'le', format('%d', ends)
        s = s + 2
      end
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
