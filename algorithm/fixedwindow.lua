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
				redis.call('SET', key, found, 'PX', math.ceil(a / 1000) + slack)
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
	local into = latest % a
	if into < 0 then -- the quotient was rounded up
		into = into + a
	end
	local start = latest - into
	if time < start then
		time, units = start, 0
	end
	local life = math.ceil((start + a - now) / 1000)
	if op == 'give' then
		if c >= start and c < start + a then
			units = math.max(0, units - n)
		end
	elseif op == 'charge' then
		units = units + math.min(n, math.max(0, capacity * 11 - units)) -- a debt of ten capacities
	elseif units + n > capacity then
		-- What was written under a limit of a shorter memory is kept for as long as it is denied.
		if op ~= 'look' and redis.call('PTTL', key) < life then
			redis.call('PEXPIRE', key, life + slack)
		end
		return false, found
	else
		if n == 0 then
			return true, found
		end
		units = units + n
	end
	return true, found, 'SET', packPair(time, units), life + slack
end
