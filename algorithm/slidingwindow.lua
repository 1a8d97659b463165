-- The twin of slidingwindow.go: the units consumed in the window of the latest decision, and in the one before. The
-- value is the period, the time of that decision, and the two counters, which share five bytes if they are small. a is
-- the period, c is the time of a receipt.
local SMALL = 1048576

local function loadWindows(key, a)
	local value = redis.pcall('GET', key)
	if not value then
		return nil
	end
	local kind, period, latest, current, previous
	if #value == 19 then
		local both
		kind, period, latest, both = struct.unpack('>BI6I7I5', value)
		previous = both % SMALL
		current = (both - previous) / SMALL
	elseif #value == 26 then
		kind, period, latest, current, previous = struct.unpack('>BI6I7I6I6', value)
	end
	if period ~= a or (kind ~= 115 and kind ~= 83) then
		return false
	end
	return latest, current, previous
end

local function saveWindows(key, a, latest, current, previous, life)
	local value
	if current < SMALL and previous < SMALL then
		value = struct.pack('>BI6I7I5', 115, a, latest, current * SMALL + previous)
	else
		value = struct.pack('>BI6I7I6I6', 83, a, latest, current, previous)
	end
	redis.call('SET', key, value, 'PX', life)
end

local function slidingwindow(op, key, now, server, slack, n, capacity, a, _, c)
	local time, current, previous = loadWindows(key, a)
	local found = ''
	if time then
		if server and time > now then
			time = now
			if op ~= 'look' then
				saveWindows(key, a, time, current, previous, lifeOf(2 * a, slack))
			end
		end
		found = struct.pack('>BI6I7I6I6', 83, a, time, current, previous)
	elseif time == false then
		return 'changed'
	else
		if op == 'give' then
			return true, found
		elseif op == 'place' then
			return true, found, saveWindows, a, c, n, 0, lifeOf(c + 2 * a - now, slack)
		end
		time, current, previous = 0, 0, 0
	end
	local latest = math.max(now, time)
	local _, into = scale(latest, 1, a)
	local begin = latest - into
	if time < begin then
		if time >= begin - a then
			previous = current
		else
			previous = 0
		end
		current = 0
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
	return true, found, saveWindows, a, latest, current, previous, lifeOf(begin + 2 * a - now, slack)
end
