-- The twin of grant.go: takes units on one key for a caller that hands them out. ARGV[1] is not used. ARGV[2] has need,
-- capacity, a, b, want and share as numbers of 7 bytes, and after them the argument of carry.lua. The reply is one
-- string: the time, whether it is allowed, as in take.lua, the state that was found, and how many units were taken, in
-- 7 bytes.
local key, asked = KEYS[1], ARGV[2]
local need, capacity, a, b, want, share = struct.unpack('>I7I7I7I7I7I7', asked)
local fits, seen = step('look', key, now, server, slack, need, capacity, a, b)
if fits == 'changed' then
	local other = carry(step, asked, 42, key, now, server, slack, capacity, a, b)
	if other then
		return struct.pack('>I7B', now, 2) .. other .. struct.pack('>I7', 0)
	end
	fits, seen = step('look', key, now, server, slack, need, capacity, a, b)
end
local n = need
if fits == true then
	-- There is room for far fewer than 2^53 units, so the quotient is not rounded up to the next whole number.
	n = math.min(math.max(math.floor(room(seen, now, capacity, a, b) / share), need), math.max(want, need))
end
local allowed, found, write, w1, w2, w3, w4, w5 = step('take', key, now, server, slack, n, capacity, a, b)
if allowed == nil or allowed == 'changed' then
	return redis.error_reply('HEADGATE the value of ' .. key .. ' is not a counter: something else writes to this key')
end
if write then
	if write == 'SET' then
		redis.call('SET', key, w1, 'PX', w2)
	else
		write(key, w1, w2, w3, w4, w5)
	end
end
return struct.pack('>I7B', now, allowed and 1 or 0) .. found .. struct.pack('>I7', n)
