-- One step on one key. ARGV: what to do, and n, capacity, a, b, and c if it is to give back, as numbers of 7 bytes.
-- The answer is one string: the time, whether it is allowed, and the state as it was found.
local op, key = ARGV[1], KEYS[1]
local n, capacity, a, b, c = struct.unpack(op == 'give' and '>I7I7I7I7I7' or '>I7I7I7I7', ARGV[2])
local allowed, found, write, w1, w2, w3, w4 = step(op, key, now, server, slack, n, capacity, a, b, c)
if allowed == nil then
	return redis.error_reply('HEADGATE the value of ' .. found .. ' is not a counter: something else writes to this key')
end
if write and op ~= 'look' then
	if write == 'SET' then
		redis.call('SET', key, w1, 'PX', w2)
	else
		write(key, w1, w2, w3, w4)
	end
end
return struct.pack('>I7B', now, allowed and 1 or 0) .. found
