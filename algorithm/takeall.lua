-- Takes on several keys, all or none. ARGV: the time in microseconds or '' for the server's, what to do, and for each key
-- the number of its algorithm, n, capacity, a, b.
-- The answer is one string: the time, whether all are allowed, and for each key the length of its state and the state as
-- it was found.
local steps = { [0] = tokenbucket, leakybucket, gcra, fixedwindow, slidinglog, slidingwindow, slidingbuckets, concurrency }
local now, server, slack = clock(ARGV[1])
local answer, writes, all = { '' }, {}, true
for i = 1, #KEYS do
	local at = 5 * i - 2
	local allowed, found, write, w1, w2, w3, w4 = steps[tonumber(ARGV[at])](ARGV[2], KEYS[i], now, server, slack,
		tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]))
	if allowed == nil then
		return garbage(found)
	end
	all = all and allowed
	answer[#answer + 1] = struct.pack('>I2', #found) .. found
	if write then
		writes[#writes + 1] = { write, KEYS[i], w1, w2, w3, w4 }
	end
end
if all and ARGV[2] ~= 'look' then
	for i = 1, #writes do
		local w = writes[i]
		w[1](w[2], w[3], w[4], w[5], w[6])
	end
end
answer[1] = struct.pack('>I7B', now, all and 1 or 0)
return table.concat(answer)
