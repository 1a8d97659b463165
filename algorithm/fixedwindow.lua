-- The twin of fixedwindow.go: units consumed in the window of the latest decision. The value is the period, the time of
-- that decision, and the units. a is the period; b is the key's clock offset plus 1 if the window is staggered, else 0;
-- c is the time of a receipt.
local function fixedwindow(op, key, now, server, slack, n, capacity, a, b, c)
	local kind = 119
	if b > 0 then
		kind = 118
		now = now - (b - 1)
	end
	local value, found = redis.pcall('GET', key), ''
	local time, units = 0, 0
	if value then
		local was, period
		if #value == 20 then
			was, period, time, units = struct.unpack('>BI6I7I6', value)
		end
		if was ~= kind or period ~= a then
			return 'changed'
		end
		found = value
		if server and time > now then
			time = now
			found = struct.pack('>BI6I7I6', kind, a, time, units)
			if op ~= 'look' then
				redis.call('SET', key, found, 'PX', math.ceil(a / 1000) + slack)
			end
		end
	elseif op == 'give' then
		return true, ''
	elseif op == 'place' then
		time, units = c, n
	end
	local latest = math.max(now, time)
	local into = latest % a
	if into < 0 then -- the quotient was rounded up
		into = into + a
	end
	local start = latest - into
	if op == 'place' then
		latest = time
	elseif time < start then
		units = 0
	end
	local life = math.ceil((start + a - now) / 1000)
	if op == 'give' then
		if c >= start and c < start + a then
			units = math.max(0, units - n)
		end
	elseif op == 'charge' then
		units = units + math.min(n, math.max(0, capacity * 11 - units)) -- a debt of ten capacities
	elseif op ~= 'place' then
		if units + n > capacity then
			-- It may have been written under a limit with a shorter period. A denied key must not expire before it is allowed.
			if op ~= 'look' and redis.call('PTTL', key) < life then
				redis.call('PEXPIRE', key, life + slack)
			end
			return false, found
		end
		if n == 0 then
			return true, found
		end
		units = units + n
	end
	return true, found, 'SET', struct.pack('>BI6I7I6', kind, a, latest, units), life + slack
end
