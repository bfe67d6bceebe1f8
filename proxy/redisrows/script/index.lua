-- The index of the rows in Redis, which bounds them in bytes: in total, and for each account. It takes one row in, unless it has a newer
-- copy of it, or only trims, and takes out the rows that have expired and the oldest ones beyond the bounds.
-- KEYS[1]  the order: all rows by when their fills began; with :ACCOUNT appended, those of an account
-- KEYS[2]  the rows: the bytes and the account of each
-- KEYS[3]  the sums: the bytes of all rows (all), and of each account (of:ACCOUNT)
-- ARGV     the bound of all rows, and that of an account; the milliseconds after which a row expires; the key of the row to take
--          in, empty to trim only; its bytes; its account; the microseconds since its fill began
-- An index of which a part is lost, or damaged, starts again, empty: the rows that it had expire. A script whose first write is refused
-- because the memory is full does nothing to a sound index; a trim never is, since it begins with a deletion.
local call, match = redis.call, string.match
local order, rows, sums = KEYS[1], KEYS[2], KEYS[3]
local most, share, lifetime = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local key, weight, account = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local filled = now - tonumber(ARGV[7])
local evicted, left = {}, 128 -- bounds the work of one call; what remains is for the next

local ownOrder, ownSum = order .. ':' .. account, 'of:' .. account

-- number returns what a value says as a whole number of 0 and more; nil of any other value, and of the reply of a failed pcall: others
-- can write to Redis.
local function number(value)
  local n = tonumber(value)
  if n and n >= 0 and n <= 9007199254740992 and n % 1 == 0 then return n end
end

local function held(sum) return number(redis.pcall('HGET', sums, sum) or 0) end

-- restart begins an empty index.
local function restart()
  call('DEL', order, rows, sums, ownOrder)
  call('HSET', sums, 'all', 0)
end

-- forget takes a row out. It restarts an index whose entry of the row, or sum of the bytes, is damaged. The place of the row among those
-- of another account, or the sum of that, may be damaged too: then the account's bytes begin at 0, and its rows are evicted as the
-- oldest of all.
local function forget(row)
  call('ZREM', order, row)
  local entry = call('HGET', rows, row)
  if not entry then return end
  local bytes, of = match(entry, '^(%d+) (.*)$')
  bytes = number(bytes)
  if not bytes or not number(redis.pcall('HINCRBY', sums, 'all', -bytes)) then return restart() end
  call('HDEL', rows, row)
  redis.pcall('ZREM', order .. ':' .. of, row)
  if (number(redis.pcall('HINCRBY', sums, 'of:' .. of, -bytes)) or 0) == 0 then call('HDEL', sums, 'of:' .. of) end
end

-- isSound reports whether there is an index that can be used.
local function isSound()
  local size, known = number(redis.pcall('ZCARD', order)), number(redis.pcall('HLEN', rows))
  return size and known and size > 0 and known > 0 and number(redis.pcall('HGET', sums, 'all')) and held(ownSum)
    and number(redis.pcall('ZCARD', ownOrder))
end

local function evict(set, sum, bound)
  local n = 0
  while left > 0 and (held(sum) or 0) > bound do
    local oldest = call('ZRANGE', set, 0, 0)[1]
    if not oldest then -- the set is lost
      call('HDEL', sums, sum)
      break
    end
    call('ZREM', set, oldest)
    forget(oldest)
    n, left = n + 1, left - 1
    evicted[#evicted + 1] = oldest
  end
  return n
end

if not isSound() then call('DEL', order, rows, sums, ownOrder) end
-- Fills may end in another order than they began. A date that is yet to come says nothing: the clock was set back.
local present = number(redis.pcall('ZSCORE', order, key))
local outdated = present and present > filled and present <= now
if outdated then key, weight = '', 0 end
if key ~= '' then call('HINCRBY', sums, 'all', 0) end
for _, row in ipairs(call('ZRANGEBYSCORE', order, '-inf', now - lifetime * 1000, 'LIMIT', 0, left)) do forget(row) end
-- A row from the future would never expire, nor be the oldest.
for _, row in ipairs(call('ZRANGEBYSCORE', order, now + lifetime * 1000, '+inf', 'LIMIT', 0, left)) do forget(row) end
local ofAccount, fits = 0, false
if key ~= '' then
  forget(key)
  ofAccount = evict(ownOrder, ownSum, share - weight)
end
local ofAll = evict(order, 'all', most - weight)
if key ~= '' then
  fits = (held(ownSum) or 0) + weight <= share and (held('all') or 0) + weight <= most
  if fits then
    call('ZADD', order, filled, key)
    call('ZADD', ownOrder, filled, key)
    call('HSET', rows, key, weight .. ' ' .. account)
    call('HINCRBY', sums, 'all', weight)
    call('HINCRBY', sums, ownSum, weight)
    for _, part in ipairs({order, ownOrder, rows, sums}) do call('PEXPIRE', part, 2 * lifetime) end
  else
    evicted[#evicted + 1] = key -- an older copy
  end
end
local result = {outdated and 2 or fits and 1 or 0, held('all') or 0, ofAccount, ofAll}
