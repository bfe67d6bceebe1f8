-- A minimal client for Redis. Constant requests are encoded once.
local tcp, byte, sub, concat, tostring, tonumber, select = ngx.socket.tcp, string.byte, string.sub, table.concat, tostring, tonumber, select
local M = {}

-- Encodes one argument.
function M.word(value)
	value = tostring(value)
	return "$" .. #value .. "\r\n" .. value .. "\r\n"
end

-- Encodes a request.
function M.request(...)
	local words = {"*" .. select("#", ...) .. "\r\n"}
	for i = 1, select("#", ...) do words[i + 1] = M.word((select(i, ...))) end
	return concat(words)
end

-- Returns a connection, from the pool if possible.
function M.connect(host, port, options, timeout)
	local socket = tcp()
	socket:settimeout(timeout)
	local ok, err = socket:connect(host, port, options)
	if not ok then return nil, err end
	return socket
end

local function read(socket)
	local line, err = socket:receive()
	if not line then
		socket:close() -- a late reply must not reach the next request
		return nil, err
	end
	local kind, rest = byte(line), sub(line, 2)
	if kind == 58 then return tonumber(rest) end -- :
	if kind == 43 then return rest end -- +
	if kind == 45 then return nil, rest end -- -
	local size = tonumber(rest)
	if size < 0 then return false end
	if kind == 36 then -- $
		local text
		text, err = socket:receive(size + 2)
		if text then return sub(text, 1, size) end
		socket:close()
		return nil, err
	end
	local replies = {}
	for i = 1, size do
		replies[i], err = read(socket)
		if err then return nil, err end
	end
	return replies
end

-- Sends a request, which may be a table of parts, and returns the reply: false for a null reply, and nil and the reason for
-- an error.
function M.ask(socket, request)
	local sent, err = socket:send(request)
	if not sent then return nil, err end
	return read(socket)
end

return M
