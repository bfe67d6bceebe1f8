-- Answers a request: authentication, the three limits, and the cache.
local lrucache = require "resty.lrucache"
local resp = require "resp"
local sha256 = require "nginx.sha256"

local ngx, concat, sort, sub = ngx, table.concat, table.sort, string.sub
local ask, request, word = resp.ask, resp.request, resp.word
local answers = ngx.shared.answers
local answer_seconds, key_seconds = 300, 5
local timeout, idle, pool = 1000, 60000, {pool_size = 1024} -- milliseconds

local host, port, script, script_sha
local grants = assert(lrucache.new(10000)) -- by digest of the key: a grant, or false if there is none
local urls = assert(lrucache.new(10000)) -- by URL: the same for all orders of its parameters
local digest = assert(sha256:new())
local M = {}

function M.open(redis_host, redis_port)
	host, port = redis_host, redis_port
	local file = assert(io.open(ngx.config.prefix() .. "admit.lua"))
	script = assert(file:read("*a"))
	file:close()
	script_sha = ngx.sha1_bin(script):gsub(".", function(c) return ("%02x"):format(c:byte()) end)
end

local function refuse(status, code, header)
	ngx.status = status
	for name, value in pairs(header or {}) do ngx.header[name] = value end
	ngx.header["Cache-Control"] = "private, no-store"
	local body = '{"error":{"code":"' .. code .. '"}}\n'
	ngx.header["Content-Length"] = #body
	ngx.print(body)
end

local function unavailable(what, err)
	ngx.log(ngx.ERR, what, ": ", err)
	refuse(503, "UNAVAILABLE")
end

local function new_grant(id, account, limits)
	local hash = word("account:" .. account)
	return {
		id = id, account = account, limits = limits,
		by_digest = "*9\r\n" .. word("EVALSHA") .. word(script_sha) .. word(1) .. hash,
		by_text = "*9\r\n" .. word("EVAL") .. word(script) .. word(1) .. hash,
		rest = word(id) .. word(limits[1]) .. word(limits[2]) .. word(limits[3]),
	}
end

-- Returns the record of a key, from this worker's memory or, if that is older than key_seconds, from Redis.
local function find_grant(redis, bearer)
	digest:reset()
	digest:update(bearer)
	local hash = digest:final()
	local grant = grants:get(hash)
	if grant ~= nil then return grant end
	local record, err = ask(redis, request("HMGET", "key:" .. hash, "id", "account", "per_minute", "per_hour", "per_day"))
	if not record then return nil, err end
	grant = record[1] and new_grant(record[1], record[2], {record[3], record[4], record[5]})
	grants:set(hash, grant, key_seconds)
	return grant
end

-- Charges the limits in Redis. For one key, only the time differs between requests.
local function admit(redis, grant)
	local now = word(ngx.now() * 1000)
	local verdict, err = ask(redis, {grant.by_digest, now, grant.rest})
	if not verdict and sub(err, 1, 8) == "NOSCRIPT" then return ask(redis, {grant.by_text, now, grant.rest}) end
	return verdict, err
end

local function normalised(url)
	local known = urls:get(url)
	if known then return known end
	local arguments, pairs_of = ngx.req.get_uri_args(0), {}
	for name, value in pairs(arguments) do
		pairs_of[#pairs_of + 1] = ngx.encode_args({[name] = value})
	end
	sort(pairs_of)
	known = ngx.var.uri .. "?" .. concat(pairs_of, "&")
	urls:set(url, known)
	return known
end

-- Returns the answer from the shared memory, from Redis, or from the origin.
local function find_answer(redis, account)
	local name = account .. " " .. normalised(ngx.var.request_uri)
	local body = answers:get(name)
	if body then return body, "HIT" end
	local stored, err = ask(redis, request("GET", "answer:" .. name))
	if stored == nil then return nil, err end
	if stored then
		answers:set(name, stored, answer_seconds)
		return stored, "HIT"
	end
	local origin = ngx.location.capture("/origin")
	if origin.status ~= 200 or origin.truncated then return nil, "the origin answered " .. origin.status end
	body = origin.body
	answers:set(name, body, answer_seconds)
	stored, err = ask(redis, request("SETEX", "answer:" .. name, answer_seconds, body))
	if not stored then return nil, err end
	return body, "MISS"
end

local function deny(grant, verdict)
	local refusal = -verdict % 4
	local wait = (-verdict - refusal) / 4
	refuse(429, refusal == 1 and "RATE_LIMITED" or "QUOTA_EXCEEDED", {
		["Retry-After"] = wait,
		["X-RateLimit-Limit"] = grant.limits[refusal],
		["X-RateLimit-Remaining"] = 0,
		["X-RateLimit-Reset"] = ngx.time() + wait,
	})
end

local function answer(redis)
	local bearer = ngx.var.http_authorization
	if not bearer or sub(bearer, 1, 7) ~= "Bearer " then
		return refuse(401, "UNAUTHORIZED", {["WWW-Authenticate"] = "Bearer"})
	end
	local grant, err = find_grant(redis, sub(bearer, 8))
	if grant == nil then return unavailable("find the key", err) end
	if not grant then return refuse(401, "UNAUTHORIZED", {["WWW-Authenticate"] = "Bearer"}) end
	local var = ngx.var
	var.key, var.account = grant.id, grant.account

	local verdict
	verdict, err = admit(redis, grant)
	if not verdict then return unavailable("charge the limits", err) end
	if verdict < 0 then return deny(grant, verdict) end

	local body, state = find_answer(redis, grant.account)
	if not body then return unavailable("find the answer", state) end
	local now, header = ngx.time(), ngx.header
	header["Cache-Control"] = "private, max-age=60"
	header["X-Cache"] = state
	header["X-RateLimit-Limit"] = grant.limits[3]
	header["X-RateLimit-Remaining"] = verdict
	header["X-RateLimit-Reset"] = now - now % 86400 + 86400
	header["Content-Length"] = #body
	ngx.print(body)
end

function M.serve()
	local redis, err = resp.connect(host, port, pool, timeout)
	if not redis then return unavailable("connect to Redis", err) end
	answer(redis)
	redis:setkeepalive(idle)
end

return M
