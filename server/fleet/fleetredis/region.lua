-- The nodes of a region add up their consumption, and remember the totals of other regions.
--
-- KEYS    a hash per key:
--           s        the start of the region's record, in µs
--           w        the start of its window; 0 for limits without windows
--           t        what the region consumed since s
--           p        window:units, what it consumed in the window before the one that starts at w
--           x, X     the node that sends for the region, and until when, in µs
--           k        when a sender last knew what other regions consumed, in µs
--           n<node>  start:total:time:window of a node's latest report
--           b<region> start:total:sent:flag:window:previous of another region's record; the flag is 1 if the total was
--                    too large, and previous is what the region consumed in the window before
--         Earlier versions write neither p nor the windows of n and b.
-- ARGV[1] the operation
--
-- report: ARGV[2] the node, ARGV[3] how long a sender stays sender, in µs; then for each key the start of the node's
--         record, its window and the one before, its total, what it consumed in the window before, how much of the total
--         was reported before, 1 if the node knows what other regions consumed, and how long to keep the key, in ms.
--         Returns for each key: 1 if the node is the sender, 1 if a recent sender knew what other regions consumed, s, t,
--         the units of p, and the time in µs.
-- settle: for each key a region, the start of its record, its window and the one before, its total, what it consumed in
--         the window before, when that was sent, how large the total can be, how much a known total can have grown, and
--         how long to keep the key, in ms.
--         Returns for each key: the units that are new, 1 if nothing was known of the region, 1 if the total is too large
--         or 2 if it is smaller than before, and the units of the window before that are new. Of a total that is too
--         large, the possible part is new once.

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local MAX_FIELDS = 128 -- a hash with more is searched for nodes that no longer report

-- integer formats a number. Lua's own conversion would round large ones.
local function integer(n)
	return string.format('%.0f', n)
end

-- numbers returns the numbers in a text.
local function numbers(text)
	local list = {}
	for number in string.gmatch(text, '%d+') do
		list[#list + 1] = tonumber(number)
	end
	return unpack(list)
end

local function remove_old_nodes(key, keep)
	local all = redis.call('HGETALL', key)
	for i = 1, #all, 2 do
		local at = string.match(all[i + 1], '^%d+:%d+:(%d+)')
		if string.sub(all[i], 1, 1) == 'n' and at and now - at > keep * 1000 then
			redis.call('HDEL', key, all[i])
		end
	end
end

-- units_before returns how many units of a total count in the window before: its own one, or an overlapping one if the
-- period has changed.
local function units_before(total_window, units, before, window)
	return total_window >= before and total_window < window and units or 0
end

local function report(key, node, hold, start, window, before, total, previous, reported, learned, keep)
	local field = 'n' .. node
	local h = redis.call('HMGET', key, 's', 't', 'x', 'X', field, 'w', 'k', 'p')
	local s, t = h[1] or integer(now), tonumber(h[2] or 0)
	local current = tonumber(h[6] or window)
	local k = tonumber(h[7] or 0)
	local p_window, p = string.match(h[8] or '', '^(%d+):(%d+)$')
	p = tonumber(p_window) == window and tonumber(p) or 0
	if window < current and current <= now + keep * 1000 then
		return 0, 1, s, integer(t), 0, integer(now) -- the node's window has ended
	elseif window ~= current then -- a new window, or the current one is so far ahead that a node's clock must have been wrong
		p = units_before(current, t, before, window)
		s, t = integer(math.max(now, s + 1)), 0
	end
	local base, missed = reported, previous
	if h[5] then
		local known_start, known_total, _, known_window = numbers(h[5])
		if known_start >= start or (known_window or window) == window then
			missed = 0
		else
			missed = math.max(0, previous - units_before(known_window, known_total, before, window))
		end
		if known_start == start then
			base = known_total
		elseif known_start > start then
			base = total -- a late report of a record that has ended
		else
			base = 0
		end
	end
	t = t + math.max(0, total - base)
	p = p + missed
	local sender, till = h[3], tonumber(h[4] or 0)
	local sends = sender == node or till < now or till > now + 10 * hold
	if sends then
		sender, till = node, now + hold
		if learned == 1 then
			k = now
		end
	end
	redis.call('HSET', key, 's', s, 'w', integer(window), 't', integer(t), 'x', sender, 'X', integer(till),
		'k', integer(k), 'p', integer(window) .. ':' .. integer(p), field,
		integer(start) .. ':' .. integer(math.max(total, base)) .. ':' .. integer(now) .. ':' .. integer(window))
	redis.call('PEXPIRE', key, keep)
	if redis.call('HLEN', key) > MAX_FIELDS then
		remove_old_nodes(key, keep)
	end
	return sends and 1 or 0, now - k <= 2 * hold and 1 or 0, s, integer(t), integer(p), integer(now)
end

local function settle(key, region, start, window, before, total, previous, sent, max_total, max_growth, keep)
	local field = 'b' .. region
	local known = redis.call('HGET', key, field)
	local base, first, was_too_large, known_previous = 0, 1, false, 0
	if known then
		local known_start, known_total, known_sent, flag, known_window, known_before = numbers(known)
		first = 0
		if known_start > start then
			return 0, 0, 0, 0 -- a late total of a record that has ended
		elseif known_start == start then
			if total < known_total then
				return 0, 0, sent > (known_sent or sent) and 2 or 0, 0
			end
			base, was_too_large = known_total, flag == 1
		end
		if not known_window then
			known_previous = previous -- this total was settled by an earlier version
		elseif known_window == window then
			known_previous = known_before
		else
			known_previous = units_before(known_window, known_total, before, window)
		end
	end
	if base == 0 then
		max_growth = max_total
	end
	local new, too_large = total - base, 0
	if new > max_growth then
		new, too_large = was_too_large and 0 or max_growth, 1
	end
	redis.call('HSET', key, field, integer(start) .. ':' .. integer(base + new) .. ':' .. integer(sent) .. ':' .. too_large
		.. ':' .. integer(window) .. ':' .. integer(math.max(previous, known_previous)))
	redis.call('PEXPIRE', key, keep)
	return integer(new), first, too_large, integer(math.max(0, previous - known_previous))
end

local reply = {}
local function add(...)
	for _, value in ipairs({ ... }) do
		reply[#reply + 1] = value
	end
end

if ARGV[1] == 'report' then
	for k = 1, #KEYS do
		local at = 4 + (k - 1) * 8
		add(report(KEYS[k], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[at]), tonumber(ARGV[at + 1]),
			tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]),
			tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7])))
	end
else
	for k = 1, #KEYS do
		local at = 2 + (k - 1) * 10
		add(settle(KEYS[k], ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]),
			tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7]),
			tonumber(ARGV[at + 8]), tonumber(ARGV[at + 9])))
	end
end
return reply
