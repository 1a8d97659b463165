-- The twin of slidingwindow.go: what was consumed in the window that holds a time, and in the one before. a is the
-- period, c the time of a receipt.

-- Two small counters share five bytes.
local SMALL = 1048576

local function loadWindows(key)
	local value = redis.call('GET', key)
	if not value then
		return nil
	end
	local start, current, previous
	if #value == 12 then
		local both
		start, both = struct.unpack('>I7I5', value)
		previous = both % SMALL
		current = (both - previous) / SMALL
	elseif #value == 19 then
		start, current, previous = struct.unpack('>I7I6I6', value)
	end
	if not start or start >= NEVER then
		return nil, key
	end
	return start, current, previous
end

local function saveWindows(key, start, current, previous, life)
	local value
	if current < SMALL and previous < SMALL then
		value = struct.pack('>I7I5', start, current * SMALL + previous)
	else
		value = struct.pack('>I7I6I6', start, current, previous)
	end
	redis.call('SET', key, value, 'PX', life)
end

local function slidingwindow(op, key, now, server, slack, n, capacity, a, _, c)
	local start, current, previous = loadWindows(key)
	local found = ''
	if start then
		if server and start > now then
			start = now
			if op ~= 'look' then
				saveWindows(key, start, current, previous, lifeOf(2 * a, slack))
			end
		end
		found = struct.pack('>I7I6I6', start, current, previous)
	elseif current then
		return nil, current
	else
		if op == 'give' then
			return true, found
		end
		start, current, previous = 0, 0, 0
	end
	local latest = math.max(now, start)
	local _, into = scale(latest, 1, a)
	local begin = latest - into
	if start < begin then
		if start >= begin - a then
			previous = current
		else
			previous = 0
		end
		start, current = begin, 0
	end
	if op == 'give' then
		if c >= begin and c < begin + a then
			current = math.max(0, current - n)
		elseif c >= begin - a and c < begin then
			previous = math.max(0, previous - n)
		end
	else
		local weight, rest = scale(a - into, previous, a)
		if 2 * rest > a then
			weight = weight + 1
		end
		local used = current + weight
		if op == 'charge' then
			current = current + math.min(n, math.max(0, capacity * (1 + DEBT) - used))
		elseif used + n > capacity then
			if op ~= 'look' then
				outlive(key, begin + 2 * a - now, slack)
			end
			return false, found
		else
			if n == 0 then
				return true, found
			end
			current = current + n
		end
	end
	return true, found, saveWindows, start, current, previous, lifeOf(begin + 2 * a - now, slack)
end
