-- Asks Headgate about a request, and leaves its response in variables: txn.headgate_status, unset if there is no response.

local token = nil -- the token of --api-token-file
-- HAProxy's HTTP client repeats a call up to three times if it gets no response in time. So it calls the proxy headgate of
-- haproxy.cfg, which always responds: with an error when Headgate does not respond to checks.
local address = "abns@headgate"
-- HAProxy's HTTP client crashes when it is given more header lines than tune.max_http_hdr (101), its own included.
local max_lines = 90

local function first(headers, name)
	local values = headers and headers[name]
	return values and values[0]
end

-- HAProxy's own response, when Headgate is unreachable, is a 5xx that is not a problem document. Headgate's response to a malformed
-- request is a 4xx. It must not count as unreachable, or clients could bypass limits with malformed requests.
local function is_from_headgate(response)
	return response.status == 200 or first(response.headers, "content-type") == "application/problem+json"
end

local function failed(response)
	return not response or not response.status or response.status == 0 or response.status >= 500 and not is_from_headgate(response)
end

local function ask(headers)
	local done, response = pcall(function()
		return core.httpclient():get({ url = "http://headgate/v1/forward-auth", dst = address, headers = headers, timeout = 3600000 })
	end)
	return done and response or nil
end

local function refuse(txn)
	txn:set_var("txn.headgate_status", "400")
	txn:set_var("txn.headgate_body", '{"type":"about:blank","title":"Bad Request","status":400}')
end

-- Headers of the connection and of the body, and headers that only a proxy may send.
local omitted = {
	["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["keep-alive"] = true, ["upgrade"] = true,
	["te"] = true, ["expect"] = true, ["host"] = true, ["accept-encoding"] = true,
	["x-forwarded-host"] = true, ["x-forwarded-method"] = true, ["x-forwarded-uri"] = true, ["x-forwarded-for"] = true,
	["x-original-method"] = true, ["x-original-uri"] = true, ["x-original-url"] = true, ["x-headgate-token"] = true,
}

-- client_headers returns the client's headers without the omitted ones, and the number of lines.
local function client_headers(received)
	local headers, lines = {}, 0
	for name, values in pairs(received) do
		if not omitted[name] then
			headers[name] = {}
			for i = 0, #values do
				table.insert(headers[name], values[i])
				lines = lines + 1
			end
		end
	end
	return headers, lines
end

core.register_action("headgate", { "http-req" }, function(txn)
	local received = txn.http:req_get_headers()
	local headers, lines = client_headers(received)
	if lines > max_lines then
		refuse(txn)
		return
	end
	local forwarded = first(received, "x-forwarded-for")
	headers["x-forwarded-for"] = { (forwarded and forwarded .. ", " or "") .. txn.f:src() }
	headers["x-forwarded-method"] = { txn.f:method() }
	headers["x-forwarded-uri"] = { txn.f:pathq() }
	headers["x-forwarded-host"] = { first(received, "host") or "" }
	if token then
		headers["x-headgate-token"] = { token }
	end

	local response = ask(headers)
	if failed(response) then
		return -- the request passes
	end
	if not is_from_headgate(response) then
		refuse(txn)
		return
	end
	txn:set_var("txn.headgate_status", tostring(response.status))
	txn:set_var("txn.headgate_body", ((response.body or ""):gsub("%s+$", "")))
	for name, variable in pairs({
		["retry-after"] = "txn.headgate_retry_after",
		["ratelimit-policy"] = "txn.headgate_policy",
		["ratelimit"] = "txn.headgate_ratelimit",
	}) do
		local value = first(response.headers, name)
		if value then
			txn:set_var(variable, value)
		end
	end
end)
