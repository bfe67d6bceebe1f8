-- Admits requests of many keys of many accounts at once, each of them wholly or not at all.
-- KEYS[i]  the hash of account i
-- ARGV     for each account: requests a minute and key, requests an hour, requests a day, the number n of its requests,
--          and the n key ids
-- Returns  seconds and microseconds of this server's clock; then for each account its requests of the hour and of the day
--          before, and its upstream calls of the day; then for each of its requests: the ceiling that refused it (0 none,
--          1 minute, 2 hour, 3 day), the microseconds until the minute's bucket has room, and the account's requests of the
--          hour and of the day.
-- The hash  h, d: hour and day since 1970; hn, dn, cn: requests of that hour and day, upstream calls of that day;
--          m:KEY: when the bucket of KEY is full again, in microseconds since 1970.
local clock = redis.call('TIME')
local seconds = tonumber(clock[1])
local now = seconds * 1000000 + tonumber(clock[2])
local hour, day = math.floor(seconds / 3600), math.floor(seconds / 86400)
local out = {seconds, tonumber(clock[2])}
local at = 1
for i = 1, #KEYS do
  local perMinute, perHour, perDay = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local n = tonumber(ARGV[at + 3])
  at = at + 4
  local fields, place, distinct = {'h', 'hn', 'd', 'dn', 'cn'}, {}, 5
  for j = at, at + n - 1 do
    if not place[ARGV[j]] then
      distinct = distinct + 1
      place[ARGV[j]] = distinct
      fields[distinct] = 'm:' .. ARGV[j]
    end
  end
  local known = redis.call('HMGET', KEYS[i], unpack(fields))
  -- A window that is over counts nothing; one ahead of this clock, after a failover, still counts.
  local h, d = tonumber(known[1] or 0), tonumber(known[3] or 0)
  local inHour, inDay, calls = 0, 0, 0
  if h >= hour then inHour = tonumber(known[2] or 0) else h = hour end
  local newDay = d < day
  if newDay then d = day else inDay, calls = tonumber(known[4] or 0), tonumber(known[5] or 0) end
  local o = #out
  out[o + 1], out[o + 2], out[o + 3] = inHour, inDay, calls
  local admitted, full = 0, {}
  for j = at, at + n - 1 do
    local p = place[ARGV[j]]
    local after = full[p] or tonumber(known[p] or 0)
    if after < now then after = now end
    after = after + math.floor(60000000 / perMinute)
    local ceiling, wait = 0, 0
    if inDay >= perDay then
      ceiling = 3
    elseif inHour >= perHour then
      ceiling = 2
    elseif after - now > 60000000 then
      ceiling, wait = 1, after - now - 60000000
    else
      full[p] = after
      inHour, inDay, admitted = inHour + 1, inDay + 1, admitted + 1
    end
    local o = #out
    out[o + 1], out[o + 2], out[o + 3], out[o + 4] = ceiling, wait, inHour, inDay
  end
  at = at + n
  if admitted > 0 then
    local set = {'h', h, 'hn', inHour, 'd', d, 'dn', inDay}
    if newDay then
      set[9], set[10] = 'cn', 0
    end
    for p, after in pairs(full) do
      set[#set + 1], set[#set + 2] = fields[p], string.format('%.0f', after)
    end
    redis.call('HSET', KEYS[i], unpack(set))
    if newDay then
      redis.call('EXPIRE', KEYS[i], 172800)
    end
  end
end
return out
