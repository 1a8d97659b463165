-- One step on one key. ARGV[1] is the op. ARGV[2] has n, capacity, a, b, and for 'give' c, as numbers of 7 bytes, and
-- after them the argument of convert.lua. The reply is one string: the time; 1 if it is allowed, 0 if not, 2 if the key
-- has a state of another limit and nothing was done; and the state that was found.
local op, key, asked = ARGV[1], KEYS[1], ARGV[2]
local n, capacity, a, b, c = struct.unpack(op == 'give' and '>I7I7I7I7I7' or '>I7I7I7I7', asked)
local allowed, found, write, w1, w2, w3, w4, w5 = step(op, key, now, server, slack, n, capacity, a, b, c)
if allowed == 'changed' then
	local other, which = convert(step, asked, op == 'give' and 35 or 28, key, now, server, slack, capacity, a, b)
	if other then
		return struct.pack('>I7B', now, 2) .. other
	end
	allowed, found = nil, which
	if other == nil then
		allowed, found, write, w1, w2, w3, w4, w5 = step(op, key, now, server, slack, n, capacity, a, b, c)
	end
end
if allowed == nil then
	return redis.error_reply('HEADGATE the value of ' .. found .. ' is not a counter: something else writes to this key')
end
if write and op ~= 'look' then
	if write == 'SET' then
		redis.call('SET', key, w1, 'PX', w2)
	else
		write(key, w1, w2, w3, w4, w5)
	end
end
return struct.pack('>I7B', now, allowed and 1 or 0) .. found
