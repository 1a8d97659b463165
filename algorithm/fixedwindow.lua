-- The twin of fixedwindow.go: units consumed in the window that holds a time. a is the period, b by how much the key's
-- clock is behind, c the time of a receipt.
local function fixedwindow(op, key, now, server, slack, n, capacity, a, b, c)
	now = now - b
	local time, units, found = loadPair(key)
	if time then
		if server and time > now + b then
			time = now
			found = packPair(time, units)
			if op ~= 'look' then
				savePair(key, time, units, lifeOf(a, slack))
			end
		end
	elseif units then
		return nil, units
	else
		if op == 'give' then
			return true, ''
		end
		time, units, found = 0, 0, ''
	end
	local latest = math.max(now, time)
	local _, into = divide(latest, a)
	local start = latest - into
	if time < start then
		time, units = start, 0
	end
	if op == 'give' then
		if c >= start and c < start + a then
			units = math.max(0, units - n)
		end
	elseif op == 'charge' then
		units = units + math.min(n, math.max(0, capacity * (1 + DEBT) - units))
	elseif units + n > capacity then
		if op ~= 'look' then
			outlive(key, start + a - now, slack)
		end
		return false, found
	else
		if n == 0 then
			return true, found
		end
		units = units + n
	end
	return true, found, savePair, time, units, lifeOf(start + a - now, slack)
end
