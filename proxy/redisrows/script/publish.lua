-- Follows index.lua where all keys are on one server: deletes the evicted rows, writes the row, releases the lease and publishes the
-- event.
-- KEYS     (from 4) the lease; the row, if it is so large that it was written under this name just before
-- ARGV     (from 8) the token of the lease; the channel; the event if the row or a newer copy stays, and the one if not; the milliseconds
--          after which the row expires; the row, unless it was written before
-- Returns  what evicted.lua returns, without the keys.
if #evicted > 0 then call('UNLINK', unpack(evicted)) end
local written, expiry = KEYS[5], ARGV[12]
if fits and written and not redis.pcall('RENAME', written, key).err then
  call('PEXPIRE', key, expiry)
else -- also with an access control list without RENAME
  local value = fits and (ARGV[13] or call('GET', written))
  if value then call('SET', key, value, 'PX', expiry) end
  if written then call('UNLINK', written) end
end
if redis.pcall('GET', KEYS[4]) == ARGV[8] then call('DEL', KEYS[4]) end
call('PUBLISH', ARGV[9], (fits or outdated) and ARGV[10] or ARGV[11])
return result
