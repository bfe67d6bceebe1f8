-- Begins every script. Returns what a Redis value says as a whole number of 0 to a bound, and nil of any other value: others can write
-- to Redis, and nan, inf, letters, fractions, negative and overlarge numbers must neither lift a limit, nor refuse requests for ever,
-- nor end a script with an error. The reply of a failed pcall is such a value, too.
local function number(value, most)
  local n = tonumber(value)
  if n and n >= 0 and n <= most and n % 1 == 0 then return n end
end
