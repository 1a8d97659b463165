-- Asks Headgate about a request, and leaves its response in variables: txn.headgate_status, unset if Headgate is unreachable.

local server = "http://127.0.0.1:8081"
local token = nil -- that of --api-token-file
local timeout = 10 -- seconds; longer than the longest delay
local patience = 1 -- seconds without any response after which it is checked, in the background, if Headgate responds at all
-- HAProxy's HTTP client crashes when it is given more header lines than tune.max_http_hdr (101), its own included.
local most_lines = 90

local unreachable = false -- then requests pass without asking
local checking = false -- a task finds out if Headgate responds
local asked = nil -- when a request began to wait, if there was no response to any since

local function first(headers, name)
	local values = headers and headers[name]
	return values and values[0]
end

-- HAProxy's own response when it cannot connect is an error of a server, and no problem in JSON. A response of Headgate's server to
-- a request that it cannot even parse is an error of the client. That must not count as unreachable, or one client could switch
-- limits off for all.
local function is_from_headgate(response)
	return response.status == 200 or first(response.headers, "content-type") == "application/problem+json"
end

local function failed(response)
	return not response or not response.status or response.status == 0 or response.status >= 500 and not is_from_headgate(response)
end

local function call(method, path, headers, seconds)
	local done, response = pcall(function()
		local client = core.httpclient()
		return client[method](client, { url = server .. path, headers = headers, timeout = seconds * 1000 })
	end)
	return done and response or nil
end

-- HAProxy's client tries four times, so a request waits for up to four timeouts while Headgate hangs. This task finds out sooner,
-- and later finds out that Headgate is back, without a request that waits for it.
local function check()
	if checking then
		return
	end
	checking = true
	core.register_task(function()
		while failed(call("head", "/openapi.json", {}, patience)) do
			if not unreachable then
				core.Warning("Headgate is unreachable; requests pass without asking it until it responds")
			end
			unreachable = true
			core.sleep(patience)
		end
		if unreachable then
			core.Warning("Headgate responds again")
		end
		unreachable, checking, asked = false, false, nil
	end)
end

local function refuse(txn)
	txn:set_var("txn.headgate_status", "400")
	txn:set_var("txn.headgate_body", '{"type":"about:blank","title":"Bad Request","status":400}')
end

-- Headers of the connection and of the body, and those that only a proxy may send.
local left_out = {
	["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["keep-alive"] = true, ["upgrade"] = true,
	["te"] = true, ["expect"] = true, ["host"] = true, ["accept-encoding"] = true,
	["x-forwarded-host"] = true, ["x-forwarded-method"] = true, ["x-forwarded-uri"] = true, ["x-forwarded-for"] = true,
	["x-original-method"] = true, ["x-original-uri"] = true, ["x-original-url"] = true, ["x-headgate-token"] = true,
}

-- headers_of returns the client's header, and how many lines it has.
local function headers_of(came)
	local headers, lines = {}, 0
	for name, values in pairs(came) do
		if not left_out[name] then
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
	local now = core.now().sec
	if asked and now - asked > patience then
		check()
	end
	if unreachable then
		return
	end
	local came = txn.http:req_get_headers()
	local headers, lines = headers_of(came)
	if lines > most_lines then
		refuse(txn)
		return
	end
	local forwarded = first(came, "x-forwarded-for")
	headers["x-forwarded-for"] = { (forwarded and forwarded .. ", " or "") .. txn.f:src() }
	headers["x-forwarded-method"] = { txn.f:method() }
	headers["x-forwarded-uri"] = { txn.f:pathq() }
	headers["x-forwarded-host"] = { first(came, "host") or "" }
	if token then
		headers["x-headgate-token"] = { token }
	end

	asked = asked or now
	local response = call("get", "/v1/forward-auth", headers, timeout)
	if failed(response) then
		check() -- and this request passes; others only if no response comes at all
		return
	end
	asked = nil
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
