-- Admits requests in Redis, with the address and the limits from the environment.
local host, port, digest = os.getenv("REDIS_HOST"), os.getenv("REDIS_PORT"), os.getenv("ADMIT_DIGEST")
local timeout = 1 -- second

local function word(value) return "$" .. #value .. "\r\n" .. value .. "\r\n" end

local script = assert(assert(io.open("admit.lua")):read("*a"))
local limits = word(os.getenv("PER_MINUTE")) .. word(os.getenv("PER_HOUR")) .. word(os.getenv("PER_DAY"))
local by_digest = "*9\r\n" .. word("EVALSHA") .. word(digest)
local by_text = "*9\r\n" .. word("EVAL") .. word(script)

-- Sends a request and returns the reply, which is one line. Each request has a new connection: on kept ones, one of about three
-- hundred replies is noticed only after the timeout.
local function ask(request)
	local socket = core.tcp()
	socket:settimeout(timeout)
	local line = socket:connect(host, port) and socket:send(request) and socket:receive("*l")
	socket:close()
	return line
end

-- Sets txn.left to the requests left in the day, or txn.refusal to the limit that rejects (1 minute, 2 hour, 3 day) and txn.wait
-- to seconds, or none of them if Redis does not answer.
local function admit(txn)
	local now = core.now()
	local account, key = txn:get_var("txn.account"), txn:get_var("txn.key")
	local rest = word("1") .. word("account:" .. account) .. word(tostring(now.sec * 1000 + now.usec // 1000)) .. word(key) .. limits
	local line = ask(by_digest .. rest)
	if line and line:sub(1, 9) == "-NOSCRIPT" then line = ask(by_text .. rest) end
	if not line then return end
	local verdict = tonumber(line:match("^:(-?%d+)"))
	if not verdict then
		core.log(core.err, "charge the limits: " .. line)
	elseif verdict >= 0 then
		txn:set_var("txn.left", verdict)
	else
		txn:set_var("txn.refusal", -verdict % 4)
		txn:set_var("txn.wait", -verdict // 4)
	end
end

core.register_action("admit", {"http-req"}, admit)
