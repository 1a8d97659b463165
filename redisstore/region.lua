-- The nodes of a region add up what they consumed, and take note of what other regions did, once for all of them.
--
-- KEYS    a hash a key: s (when this record began, in µs), w (the window it is of, 0 if there are none), t (what the region
--         consumed since), x and X (which node speaks for the region, and until when), k (when it last knew what other regions
--         consumed, in µs), n‹node› (what a node has reported),
--         b‹region› (what is known of another region: when its record began, how much it consumed since, when it said so, and 1
--         if that was more than can be)
-- ARGV[1] what to do
--
-- report: ARGV[2] the node (a name for each of its lives), ARGV[3] for how long it speaks for the region if nobody else does, in µs, and for each key: when
--         the node's own record began, its window, what it consumed since, how much of that it has reported before, 1 if it
--         knows what other regions consumed, and for how long all this is kept, in ms.
--         Returns the time, and for each key: 1 if the node speaks for the region, 1 if the region knows what others consumed, s
--         and t.
-- settle: for each key: a region, when its record began, what it consumed since, when it said so, how much that can be in all, and
--         how much of it can be new if the record is known, and for how long that is kept, in ms.
--         Returns for each key: how much of it is new, 1 if nothing was known of that region, and 1 if it says more than can be
--         or 2 if less than before. Of more than can be, the possible part is new once, and counts as known.

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local FEW = 128

-- whole writes a number as an integer, as Lua would round large ones.
local function whole(n)
	return string.format('%.0f', n)
end

local function parts(text)
	local a, b = string.match(text, '^(%d+):(%d+)')
	return tonumber(a), tonumber(b)
end

local function prune(key, keep)
	local all = redis.call('HGETALL', key)
	for i = 1, #all, 2 do
		local at = string.match(all[i + 1], '^%d+:%d+:(%d+)$')
		if string.sub(all[i], 1, 1) == 'n' and at and now - at > keep * 1000 then
			redis.call('HDEL', key, all[i])
		end
	end
end

local function report(key, node, hold, start, window, total, told, learned, keep)
	local field = 'n' .. node
	local h = redis.call('HMGET', key, 's', 't', 'x', 'X', field, 'w', 'k')
	local s, t = h[1] or whole(now), tonumber(h[2] or 0)
	local current = tonumber(h[6] or window)
	local k = tonumber(h[7] or 0)
	if window < current and current <= now + keep * 1000 then
		return 0, 1, s, whole(t) -- of a window that is over
	elseif window ~= current then -- or current is of a date that was far ahead, and nobody would be heard until then
		s, t = whole(math.max(now, s + 1)), 0
	end
	local base = told
	if h[5] then
		local began, known = parts(h[5])
		if began == start then
			base = known
		elseif began > start then
			base = total -- it is late, and that record has ended
		else
			base = 0
		end
	end
	t = t + math.max(0, total - base)
	local x, till = h[3], tonumber(h[4] or 0)
	local speaks = x == node or till < now or till > now + 10 * hold
	if speaks then
		x, till = node, now + hold
		if learned == 1 then
			k = now
		end
	end
	redis.call('HSET', key, 's', s, 'w', whole(window), 't', whole(t), 'x', x, 'X', whole(till), 'k', whole(k),
		field, whole(start) .. ':' .. whole(math.max(total, base)) .. ':' .. whole(now))
	redis.call('PEXPIRE', key, keep)
	if redis.call('HLEN', key) > FEW then
		prune(key, keep)
	end
	return speaks and 1 or 0, now - k <= 2 * hold and 1 or 0, s, whole(t)
end

local function settle(key, region, start, total, said, all, most, keep)
	local field = 'b' .. region
	local known = redis.call('HGET', key, field)
	local base, first, was = 0, 1, '0'
	if known then
		local began, sum = parts(known)
		local before, leaped = string.match(known, '^%d+:%d+:(%d+):(%d)$')
		first = 0
		if began > start then
			return 0, 0, 0 -- it is late
		elseif began == start then
			if total < sum then
				return 0, 0, said > tonumber(before or said) and 2 or 0
			end
			base, was = sum, leaped
		end
	end
	if base == 0 then
		most = all
	end
	local new, wrong = total - base, 0
	if new > most then
		new, wrong = was == '1' and 0 or most, 1
	end
	redis.call('HSET', key, field, whole(start) .. ':' .. whole(base + new) .. ':' .. whole(said) .. ':' .. wrong)
	redis.call('PEXPIRE', key, keep)
	return whole(new), first, wrong
end

local answer = {}
local function add(...)
	for _, value in ipairs({ ... }) do
		answer[#answer + 1] = value
	end
end

if ARGV[1] == 'report' then
	add(whole(now))
	for k = 1, #KEYS do
		local at = 4 + (k - 1) * 6
		add(report(KEYS[k], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[at]), tonumber(ARGV[at + 1]),
			tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])))
	end
else
	for k = 1, #KEYS do
		local at = 2 + (k - 1) * 7
		add(settle(KEYS[k], ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]),
			tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])))
	end
end
return answer
