-- Adds to the counts of one account what a replica has counted and this server does not have: it was admitted while this
-- server was away, or this server has lost it. Doing this twice adds nothing the second time.
-- KEYS[1]  the hash of the account, see admit.lua and charge.lua; w:h, w:d: the part of hn and dn that is known to be
--          admitted, but not by which replica, until that one restores it; o:h, o:d, o:c: the requests of the hour and of the day and
--          the upstream calls that replicas have reported as beyond their limits, as hour or day * 2^31 + n
-- ARGV     the deadline, see admit.lua; the id of the replica; the limits: requests a minute and key, requests an hour,
--          requests a day, upstream calls a day; the hour and the day of the counts that follow; requests of the hour and of
--          the day, upstream calls charged and returned, and the requests of the hour and of the day and the calls that this
--          replica knows to be reported as beyond a limit, and the requests of
--          the hour and of the day that it knows to be admitted by all; the requests of the hour and of the day that no server
--          has ever had, since they were admitted while it was away; the requests of the day that are of leases and that the replica has
--          not reported. Then for each key: its id, when its bucket is full again as this server has sent the replica, and by how many
--          microseconds the replica has drained it since.
-- Returns  seconds and microseconds of this server's clock, and nothing else after the deadline; then the requests of the
--          hour and of the day and the upstream calls of the day; how many requests and upstream calls were missing; how many
--          are newly reported as beyond the limits of the hour, the day, the calls and the minutes; and what is
--          reported now of the hour, the day and the calls
local call, max, min, floor = redis.call, math.max, math.min, math.floor
local clock = call('TIME')
local seconds, micros = tonumber(clock[1]), tonumber(clock[2])
local now = seconds * 1000000 + micros
if now > tonumber(ARGV[1]) then return {seconds, micros} end
local hour, day = floor(seconds / 3600), floor(seconds / 86400)
local arg = {}
for i = 3, 20 do arg[i] = tonumber(ARGV[i]) end
local perMinute, perHour, perDay, perDayCalls, ofHour, ofDay = arg[3], arg[4], arg[5], arg[6], arg[7], arg[8]
local own, charged, returned = 'b:' .. ARGV[2], 'c:' .. ARGV[2], 'r:' .. ARGV[2]
local fields = {'h', 'hn', 'd', 'dn', 'cn', own, charged, returned, 'w:h', 'w:d', 'o:h', 'o:d', 'o:c', 'ln', 'le'}
local stored, h, inHour, d, inDay, used = read(KEYS[1], fields, 15, 8, hour, day)
local held, lapsedDay, lapsedHour = leases(stored[14], stored[15], d < day, hour, now)
-- The replica's clock may be ahead of this one by a round trip, so it may have reached the next hour first.
if ofHour == hour + 1 then hour, day = ofHour, ofDay end
if h < hour then h, inHour = hour, 0 end
if d < day then d, inDay, used = day, 0, 0 end
if lapsedDay > 0 then
  inHour, stored[9] = inHour + lapsedHour, max(stored[9], h * window) + lapsedHour
  inDay, stored[10] = inDay + lapsedDay, max(stored[10], d * window) + lapsedDay
end

-- missing returns how much of a count of the current day is not stored, and the value to store. Counts of other days are
-- only noted, so that the replica does not ask again.
local function missing(has, count)
  local value = ofDay * window + count
  if ofDay ~= d then return 0, max(has, value) end
  return max(0, value - max(has, d * window)), max(has, value)
end
local requests, ownNow = missing(stored[6], arg[10])
local calls, chargedNow = missing(stored[7], arg[11])
local back, returnedNow = missing(stored[8], arg[12])
-- What is missing are the replica's latest requests, since a server has all up to some point.
local inThisHour, knownOfHour, knownOfDay = 0, 0, 0
local freshOfHour, freshOfDay, leasedOfDay = 0, 0, 0
if ofHour == h then inThisHour, knownOfHour, freshOfHour = min(requests, arg[9]), arg[16], arg[18] end
if ofDay == d then knownOfDay, freshOfDay, leasedOfDay = arg[17], arg[19], arg[20] end
used = max(0, used + calls - back)
local set = {'h', h, 'd', d, 'cn', used, own, string.format('%d', ownNow),
  charged, string.format('%d', chargedNow), returned, string.format('%d', returnedNow)}
local function store(field, value) set[#set + 1], set[#set + 2] = field, string.format('%d', value) end

-- add adds what was missing to a count, unless it is in the part whose replica is not known. What is fresh cannot be in that part: no
-- server has ever shown it. Then it raises the count to what is known to be admitted by all. It also returns how much was in that part.
local function add(field, was, ofWindow, count, new, known, fresh)
  local unattributed = max(0, was - ofWindow * window)
  local found = min(unattributed, max(0, new - fresh))
  count, unattributed = count + new - found, unattributed - found
  if known > count then count, unattributed = known, unattributed + known - count end
  if was > 0 or unattributed > 0 then store(field, ofWindow * window + unattributed) end
  return count, found
end
local found
inHour = add('w:h', stored[9], h, inHour, inThisHour, knownOfHour, freshOfHour)
inDay, found = add('w:d', stored[10], d, inDay, requests, knownOfDay, freshOfDay)
store('hn', inHour)
store('dn', inDay)
-- What was used of a lease that has not lapsed is held no more: it would count again when the lease lapses. A server that has counted nothing
-- of the replica has leased it nothing: the lease was that of a server whose data are lost.
if stored[6] == 0 then leasedOfDay = 0 end
store('ln', held - max(0, min(held, leasedOfDay, requests - freshOfDay - found)))

-- beyond returns how much of a count is beyond its limit and not reported yet, which is no more than was missing, since the limit
-- may have been lowered; and what is reported then.
local function beyond(field, was, ofWindow, known, count, limit, most)
  local reported = max(known, was - ofWindow * window)
  local new = 0
  if limit >= 0 then new = max(0, min(most, count - limit - reported)) end
  reported = reported + new
  if reported > 0 then store(field, ofWindow * window + reported) end
  return new, reported
end
local knownHour, knownDay, knownCalls = 0, 0, 0
if ofHour == h then knownHour = arg[13] end
if ofDay == d then knownDay, knownCalls = arg[14], arg[15] end
local overHour, reportedHour = beyond('o:h', stored[11], h, knownHour, inHour, perHour, inThisHour)
local overDay, reportedDay = beyond('o:d', stored[12], d, knownDay, inDay, perDay, requests)
local overCalls, reportedCalls = beyond('o:c', stored[13], d, knownCalls, used, perDayCalls, calls)

local interval, overMinute = max(1, floor(60000000 / max(perMinute, 1))), 0
local drained = now + max(perMinute, 1) * interval
for k = 21, #ARGV, 3 do
  local field = 'm:' .. ARGV[k]
  -- A clock that was ahead has shown a replica a bucket that is full only then.
  local full = max(number(call('HGET', KEYS[1], field) or 0, drained) or drained, min(tonumber(ARGV[k + 1]), drained), now)
  if requests > 0 then full = full + tonumber(ARGV[k + 2]) end
  overMinute = overMinute + floor(max(0, full - drained) / interval)
  call('HSET', KEYS[1], field, string.format('%d', min(full, drained))) -- a command of all keys could have too many arguments for Lua
end
call('HSET', KEYS[1], unpack(set))
call('EXPIRE', KEYS[1], 172800)
return {seconds, micros, inHour, inDay, used, requests, calls, overHour, overDay, overCalls, overMinute,
  reportedHour, reportedDay, reportedCalls}
