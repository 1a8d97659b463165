-- Takes on several keys, all or none. ARGV[1] is the op. For each key there is an argument: the number of its algorithm
-- as a byte, n, capacity, a, b as numbers of 7 bytes, and after them the argument of convert.lua. steps has the step of
-- each algorithm. The reply is one string: the time; 1 if all are allowed, 0 if not, 2 if a key has a state of another
-- limit and nothing was done; and for each key the length of its state and the state that was found.
local op = ARGV[1]
local reply, writes, all, changed = { '' }, {}, true, false
for i = 1, #KEYS do
	local asked, key = ARGV[i + 1], KEYS[i]
	local number, n, capacity, a, b = struct.unpack('>BI7I7I7I7', asked)
	local step = steps[number]
	local allowed, found, write, w1, w2, w3, w4, w5 = step(op, key, now, server, slack, n, capacity, a, b)
	if allowed == 'changed' then
		allowed, found = convert(step, asked, 29, key, now, server, slack, capacity, a, b)
		if allowed then
			changed, found = true, allowed
		elseif allowed == nil then
			allowed, found, write, w1, w2, w3, w4, w5 = step(op, key, now, server, slack, n, capacity, a, b)
		else
			allowed = nil
		end
	end
	if allowed == nil then
		return redis.error_reply('HEADGATE the value of ' .. found .. ' is not a counter: something else writes to this key')
	end
	all = all and allowed
	reply[#reply + 1] = struct.pack('>I2', #found) .. found
	if write then
		writes[#writes + 1] = { write, key, w1, w2, w3, w4, w5 }
	end
end
if changed then
	all = 2
elseif all and op ~= 'look' then
	for i = 1, #writes do
		local w = writes[i]
		if w[1] == 'SET' then
			redis.call('SET', w[2], w[3], 'PX', w[4])
		else
			w[1](w[2], w[3], w[4], w[5], w[6], w[7])
		end
	end
end
reply[1] = struct.pack('>I7B', now, all == 2 and 2 or all and 1 or 0)
return table.concat(reply)
