-- What follows the list of requests in the script that wrk runs.

local last = 0

function init(args)
	-- From here on wrk can be interrupted, and then tells what it has measured.
	io.stderr:write("ready\n")
end

function request()
	last = last % #requests + 1
	return requests[last]
end

function done(summary, latency, each)
	local e = summary.errors
	io.write(string.format('\n{"Micros":%d,"Requests":%d,"Refused":%d,"Connect":%d,"Read":%d,"Write":%d,"Timeout":%d,"P50":%d,"P99":%d}\n',
		summary.duration, summary.requests, e.status, e.connect, e.read, e.write, e.timeout, latency:percentile(50), latency:percentile(99)))
end
