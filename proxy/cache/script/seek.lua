-- Reads copies of rows, and takes the lease to fill them if there are none: in one step, so that no copy comes in between.
-- KEYS     the lease; the copies that may answer; what else to read along
-- ARGV     the token of the lease; the milliseconds that it lasts; how many copies may answer; the most bytes of a value that it
--          returns; 1 to take the lease even if there are copies
-- Returns  1 if this token has the lease, 0 if not, or the error for which it could not be taken: copies can be read even while Redis
--          refuses writes; then the values of the other keys: false of those that do not exist or are of another type, and the number of
--          bytes of those that are too long.
local reply, wanted = {0}, true
for i = 2, #KEYS do
  local value = redis.pcall('STRLEN', KEYS[i])
  if value == 0 then
    value = false
  elseif type(value) ~= 'number' or value <= tonumber(ARGV[4]) then -- an error: of another type, or an access control list without STRLEN
    value = redis.pcall('GET', KEYS[i])
    if type(value) ~= 'string' then value = false end
  end
  if value and i < 2 + tonumber(ARGV[3]) then wanted = false end
  reply[i] = value
end
if wanted or ARGV[5] == '1' then
  local taken = redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
  if not taken then
    if redis.pcall('GET', KEYS[1]) == ARGV[1] then reply[1] = 1 end -- the command was sent again
  elseif taken.err then
    reply[1] = taken.err
  else
    reply[1] = 1
  end
end
return reply
