-- Asks Headgate about a request, and leaves its answer in variables: txn.headgate_status, unset if Headgate is away.

local url = "http://127.0.0.1:8081/v1/forward-auth"
local token = nil -- that of --api-token-file
local timeout = 10000 -- milliseconds; longer than the longest delay
local pause = 5 -- seconds for which Headgate is not asked when it was away: HAProxy takes seconds to find out
local away_until = 0

-- What belongs to a connection or a body is not the client's to ask about.
local left_out = {
	["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["keep-alive"] = true, ["upgrade"] = true,
	["te"] = true, ["expect"] = true, ["host"] = true, ["accept-encoding"] = true,
	["x-forwarded-host"] = true, ["x-forwarded-method"] = true, ["x-forwarded-uri"] = true, ["x-forwarded-for"] = true,
	["x-original-method"] = true, ["x-original-uri"] = true, ["x-original-url"] = true, ["x-headgate-token"] = true,
}

local function first(headers, name)
	local values = headers and headers[name]
	return values and values[0]
end

core.register_action("headgate", { "http-req" }, function(txn)
	local now = core.now().sec
	if now < away_until then
		return
	end
	local headers = {}
	local came = txn.http:req_get_headers()
	for name, values in pairs(came) do
		if not left_out[name] then
			headers[name] = {}
			for i = 0, #values do
				table.insert(headers[name], values[i])
			end
		end
	end
	local forwarded = first(came, "x-forwarded-for")
	headers["x-forwarded-for"] = { (forwarded and forwarded .. ", " or "") .. txn.f:src() }
	headers["x-forwarded-method"] = { txn.f:method() }
	headers["x-forwarded-uri"] = { txn.f:pathq() }
	headers["x-forwarded-host"] = { first(came, "host") or "" }
	if token then
		headers["x-headgate-token"] = { token }
	end

	local asked, answer = pcall(function()
		return core.httpclient():get({ url = url, headers = headers, timeout = timeout })
	end)
	-- What HAProxy answers itself when it cannot connect is an error of a server that is no problem in JSON. What Headgate's server
	-- says of a request that it cannot even read is one of the client: that must not count as away, or one client could have
	-- Headgate left out for all.
	local status = asked and answer and answer.status or 0
	local kind = status ~= 0 and first(answer.headers, "content-type")
	local known = status == 200 or kind == "application/problem+json"
	if status == 0 or status >= 500 and not known then
		away_until = now + pause
		core.Warning("Headgate is away; requests pass for " .. pause .. " s without asking it")
		return
	end
	local body = (answer.body or ""):gsub("%s+$", "")
	if not known then
		status, body = 400, '{"type":"about:blank","title":"Bad Request","status":400}'
	end
	txn:set_var("txn.headgate_status", tostring(status))
	txn:set_var("txn.headgate_body", body)
	for name, variable in pairs({
		["retry-after"] = "txn.headgate_retry_after",
		["ratelimit-policy"] = "txn.headgate_policy",
		["ratelimit"] = "txn.headgate_ratelimit",
	}) do
		local value = first(answer.headers, name)
		if value then
			txn:set_var(variable, value)
		end
	end
end)
