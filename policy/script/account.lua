-- Follows number.lua in the scripts that count for an account, whose hash admit.lua describes.
local window, longest = 2147483648, 9007199254740992

-- read returns the fields of an account's hash, of which the first are h, hn, d, dn and cn; then up to three marks of a replica
-- (b:, c:, r:, as day * 2^31 + n), as numbers; then, to the number of marks, those of the hour. It also returns the hour and the day
-- with their counts, 0 of windows that have ended. One ahead of this clock, after a failover, still counts, up to one hour or day.
-- A hash with a damaged value counts as lost, and is deleted: the replicas restore what they know to be admitted, see
-- restore.lua. A sound count beside a damaged mark would be added to itself.
local function read(key, fields, n, marks, hour, day)
  local stored = redis.pcall('HMGET', key, unpack(fields, 1, n))
  local sound, h, inHour, d, inDay, calls = not stored.err, 0, 0, 0, 0, 0
  if stored[1] or stored[2] or stored[3] or stored[4] or stored[5] then -- each write has them all
    h, inHour = number(stored[1], hour + 1), number(stored[2], window)
    d, inDay, calls = number(stored[3], day + 1), number(stored[4], window), number(stored[5], window)
    sound = h and inHour and d and inDay and calls
  end
  for i = 6, 5 + marks do
    if sound then
      stored[i] = number(stored[i] or 0, ((i < 9 and day or hour) + 2) * window)
      sound = stored[i]
    end
  end
  if sound then
    if h < hour then inHour = 0 end
    if d < day then inDay, calls = 0, 0 end
    return stored, h, inHour, d, inDay, calls
  end
  redis.call('DEL', key)
  stored = {}
  for i = 6, 5 + marks do stored[i] = 0 end
  return stored, 0, 0, 0, 0, 0
end

-- leases returns how many requests replicas hold on lease (ln), and how many of the day and of the hour count as used from now on: all of
-- them, if they were not reported or returned in time (le). What is leased does not outlive its day.
local function leases(ln, le, newDay, hour, now)
  local held, ends = number(ln or 0, window) or 0, number(le or 0, longest) or 0
  if newDay or held == 0 then return 0, 0, 0 end
  if now <= ends then return held, 0, 0 end
  if ends <= hour * 3600000000 then return 0, held, 0 end
  return 0, held, held
end
