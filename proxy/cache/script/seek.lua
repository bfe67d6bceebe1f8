-- Reads copies of rows, or their first parts, and takes the lease to fill them if there are none: in one step, so that no copy comes in
-- between.
-- KEYS     the copies that may answer; what else to read along; and the lease, if there is a token
-- ARGV     the token of the lease, or nothing; the milliseconds that it lasts; 1 to take the lease even if there are copies; how many
--          copies may answer; how many parts of each are enough, 0 for all; where the frame of the first segment of a copy begins; the
--          most bytes of a value that it returns
-- Returns  the values of the keys but the lease's: false of those that do not exist or are of another type, and the number of bytes of
--          those that are too long; then 1 if this token has the lease, 0 if not, or the error for which it could not be taken: copies
--          can be read even while Redis refuses writes.
local token, copies, longest = ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[7])

local function whole(key)
  local size = redis.pcall('STRLEN', key)
  if size == 0 then return false end
  if type(size) == 'number' and size > longest then return size end
  local value = redis.pcall('GET', key) -- also after an error: of another type, or an access control list without STRLEN
  return type(value) == 'string' and value
end

-- The frames of the segments (package keyring) tell where a part ends. Other values come as a whole.
local function first(key, parts)
  local at = tonumber(ARGV[6])
  while at <= longest do
    local frame = redis.pcall('GETRANGE', key, at, at + 3)
    if frame == '' then return false end -- no value, or one that ends too early
    if type(frame) ~= 'string' or #frame < 4 then break end -- also after an error, as above
    local a, b, c, d = string.byte(frame, 1, 4)
    local kind = a % 4
    at = at + 4 + (a - kind) / 4 + b * 2 ^ 6 + c * 2 ^ 14 + d * 2 ^ 22
    if kind == 2 then parts = parts - 1 end
    if kind == 1 or parts == 0 then
      if at > longest then break end
      return redis.call('GETRANGE', key, 0, at - 1)
    end
  end
  return whole(key)
end

local reply, wanted, parts = {}, true, tonumber(ARGV[5])
for i = 1, token == '' and #KEYS or #KEYS - 1 do
  local value
  if i <= copies and parts > 0 then value = first(KEYS[i], parts) else value = whole(KEYS[i]) end
  if value and i <= copies then wanted = false end
  reply[i] = value
end

local has = 0
if token ~= '' and (wanted or ARGV[3] == '1') then
  local lease = KEYS[#KEYS]
  local taken = redis.pcall('SET', lease, token, 'NX', 'PX', ARGV[2])
  if not taken then
    if redis.pcall('GET', lease) == token then has = 1 end -- the command was sent again
  elseif taken.err then
    has = taken.err
  else
    has = 1
  end
end
reply[#reply + 1] = has
return reply
