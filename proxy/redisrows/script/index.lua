-- The index of the rows in Redis, which bounds them in bytes: in total, and for each account. It takes one row in, or only trims,
-- and takes out the rows that have expired and the oldest ones beyond the bounds.
-- KEYS[1]  the order: all rows by when they were written; with :ACCOUNT appended, those of an account
-- KEYS[2]  the rows: the bytes and the account of each
-- KEYS[3]  the sums: the bytes of all rows (all), and of each account (of:ACCOUNT)
-- ARGV     the bound of all rows, and that of an account; the milliseconds after which a row expires; the key of the row to take
--          in, empty to trim only; its bytes; its account
-- An index of which a part is lost starts anew: the rows that it had expire. A script whose first write is refused because the
-- memory is full does nothing; a trim never is, since it begins with a deletion.
local call, match = redis.call, string.match
local order, rows, sums = KEYS[1], KEYS[2], KEYS[3]
local most, share, lifetime = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local key, weight, account = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local evicted, left = {}, 128 -- bounds the work of one call; what remains is for the next

local function held(sum) return tonumber(call('HGET', sums, sum) or 0) end

local function forget(row)
  call('ZREM', order, row)
  local entry = call('HGET', rows, row)
  if not entry then return end
  local bytes, of = match(entry, '^(%d+) (.*)$')
  call('HDEL', rows, row)
  call('ZREM', order .. ':' .. of, row)
  call('HINCRBY', sums, 'all', -bytes)
  if call('HINCRBY', sums, 'of:' .. of, -bytes) <= 0 then call('HDEL', sums, 'of:' .. of) end
end

local function evict(set, sum, bound)
  local n = 0
  while left > 0 and held(sum) > bound do
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

local parts = call('EXISTS', order, rows, sums)
if key ~= '' then call('HINCRBY', sums, 'all', 0) end
if parts < 3 then call('DEL', order, rows, sums) end
for _, row in ipairs(call('ZRANGEBYSCORE', order, '-inf', now - lifetime * 1000, 'LIMIT', 0, left)) do forget(row) end
local ofAccount, fits = 0, false
if key ~= '' then
  forget(key)
  ofAccount = evict(order .. ':' .. account, 'of:' .. account, share - weight)
end
local ofAll = evict(order, 'all', most - weight)
if key ~= '' then
  fits = held('of:' .. account) + weight <= share and held('all') + weight <= most
  if fits then
    call('ZADD', order, now, key)
    call('ZADD', order .. ':' .. account, now, key)
    call('HSET', rows, key, weight .. ' ' .. account)
    call('HINCRBY', sums, 'all', weight)
    call('HINCRBY', sums, 'of:' .. account, weight)
    for _, part in ipairs({order, order .. ':' .. account, rows, sums}) do call('PEXPIRE', part, 2 * lifetime) end
  else
    evicted[#evicted + 1] = key -- an older copy
  end
end
local result = {fits and 1 or 0, held('all'), ofAccount, ofAll}
