-- The twin of bucket.go: units consumed since an anchor time at which none of them had drained.

local function slide(time, units, now, rateUnits, rateMicros)
	if units == 0 then
		return math.max(now, time), 0, 0
	end
	local elapsed = now - time
	if elapsed <= 0 then
		return time, units, 0
	end
	if elapsed >= rateMicros then
		local periods, rest = scale(elapsed, 1, rateMicros)
		local gone = periods * rateUnits
		if gone >= units then
			return now, 0, 0
		end
		time, units, elapsed = now - rest, units - gone, rest
	end
	local drained = 0
	if rateUnits > 1 and elapsed > 0 then
		drained = scale(elapsed, rateUnits, rateMicros)
		if drained >= units then
			return now, 0, 0
		end
	end
	return time, units, drained
end

-- giveBucket is in bucketgive.lua, which only scripts that give back have: Redis makes every function anew for each call.
local giveBucket

-- bucket is the step of all algorithms of this kind. What would be in the bucket beyond its capacity must have drained.
--
-- A step returns whether it allows (nil, and which key, if what is there is not a state), the state that it found, and
-- how to write what it has come to, if that is anything new: 'SET', a value, and for how many milliseconds it is kept; or
-- a function, and what it takes behind the key. a and b are the rate, c the time of a receipt.
--
-- Expiry is not what decides, so it comes late, by the slack.
local function bucket(op, key, now, server, slack, n, capacity, a, b, c)
	local time, units, found = loadPair(key)
	if time then
		if server and time > now then
			time = now
			found = packPair(time, units)
			if op ~= 'look' then
				redis.call('SET', key, found, 'PX', math.ceil(math.min(units * b / a, 9007199254740992) / 1000) + slack)
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
	if op == 'give' then
		time, units = giveBucket(time, units, now, n, c, a, b)
	else
		local drained
		time, units, drained = slide(time, units, now, a, b)
		if op == 'charge' then
			units = units + math.min(n, math.max(0, capacity * 11 - (units - drained))) -- a debt of ten capacities
		elseif units + n - capacity - drained > 0 then
			if op ~= 'look' then
				-- What was written under a limit of a shorter memory is kept for as long as it is denied.
				local rest = math.max(0, math.min(time - now + units * b / a, 9007199254740992))
				local life = math.ceil(rest / 1000)
				if redis.call('PTTL', key) < life then
					redis.call('PEXPIRE', key, life + slack)
				end
			end
			return false, found
		else
			if n == 0 then
				return true, found
			end
			units = units + n
		end
	end
	-- A debt of another limit may last longer than Redis can say.
	local rest = math.max(0, math.min(time - now + units * b / a, 9007199254740992))
	return true, found, 'SET', packPair(time, units), math.ceil(rest / 1000) + slack
end
