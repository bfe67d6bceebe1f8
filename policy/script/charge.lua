-- Charges upstream calls to the day of one account if they fit, or returns calls that were charged.
-- KEYS[1]  the hash of the account, see admit.lua; c:REPLICA and r:REPLICA: the upstream calls that a replica has charged and
--          returned on its day, as day * 2^31 + calls
-- ARGV     the deadline, see admit.lua; the id of the calling replica; the calls that it has charged and returned today, with
--          the day; the limit of calls a day, negative for none; calls to charge, negative to return; the day since 1970 that
--          these are of, 0 for the current one
-- Returns  seconds and microseconds of this server's clock, and nothing else after the deadline; then -1 if this server has
--          lost calls of the replica, which restores them, see restore.lua; else 0, or if the calls do not fit the
--          microseconds until the day ends; the calls that were charged, negative if returned; and the calls of the day
local clock = redis.call('TIME')
local seconds, micros = tonumber(clock[1]), tonumber(clock[2])
local now = seconds * 1000000 + micros
if now > tonumber(ARGV[1]) then return {seconds, micros} end
local limit, calls, ofDay = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local hour, day = math.floor(seconds / 3600), math.floor(seconds / 86400)
local charged, returned = 'c:' .. ARGV[2], 'r:' .. ARGV[2]
local stored, h, inHour, d, inDay, used = read(KEYS[1], {'h', 'hn', 'd', 'dn', 'cn', charged, returned}, 7, 2, hour, day)
local hasCharged, hasReturned = stored[6], stored[7]
if hasCharged < tonumber(ARGV[3]) or hasReturned < tonumber(ARGV[4]) then return {seconds, micros, -1} end
local newDay = d < day
h, d = math.max(h, hour), math.max(d, day)
if limit >= 0 and used + calls > limit then
  return {seconds, micros, (d + 1) * 86400000000 - now, 0, used}
end
if ofDay > 0 and ofDay ~= d then calls = 0 end -- returned after their day has ended
calls = math.max(calls, -used)
local function add(has, n) return string.format('%d', math.max(has, d * window) + n) end
redis.call('HSET', KEYS[1], 'h', h, 'hn', inHour, 'd', d, 'dn', inDay, 'cn', used + calls,
  charged, add(hasCharged, math.max(calls, 0)), returned, add(hasReturned, math.max(-calls, 0)))
if newDay then -- what is leased does not outlive its day
  redis.call('HSET', KEYS[1], 'ln', 0)
  redis.call('EXPIRE', KEYS[1], 172800)
end
return {seconds, micros, 0, calls, used + calls}
