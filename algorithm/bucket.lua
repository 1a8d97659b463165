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
		local periods, rest = divide(elapsed, rateMicros)
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

-- giveBucket returns n units taken at a time, less what has drained of them since.
local function giveBucket(time, units, now, n, at, rateUnits, rateMicros)
	time, units = slide(time, units, now, rateUnits, rateMicros)
	now = math.max(now, time)
	local periods, rest = divide(math.max(0, now - at), rateMicros)
	local gone = periods * rateUnits
	if gone >= n or gone + scale(rest, rateUnits, rateMicros) >= n then
		return time, units
	end
	units = units - (n - gone)
	time = time + rest
	if time > now then
		time, units = time - rateMicros, units + rateUnits
	end
	if units <= 0 then
		return now, 0
	end
	local elapsed
	periods, elapsed = divide(now - time, rateMicros)
	if periods * rateUnits + scale(elapsed, rateUnits, rateMicros) >= units then
		return now, 0
	end
	return time, units
end

-- bucketStep returns the step of an algorithm of this kind; admits(ahead, drained) is its own.
--
-- A step returns whether it allows (nil, and which key, if what is there is not a state), the state that it found, and
-- how to write what it has come to, if that is anything new. a and b are the rate, c the time of a receipt.
local function bucketStep(admits)
	return function(op, key, now, server, slack, n, capacity, a, b, c)
		local time, units = loadPair(key)
		local found = ''
		if time then
			if server and time > now then
				time = now
				if op ~= 'look' then
					savePair(key, time, units, lifeOf(units * b / a, slack))
				end
			end
			found = struct.pack('>I7I6', time, units)
		elseif units then
			return nil, units
		else
			if op == 'give' then
				return true, found
			end
			time, units = 0, 0
		end
		if op == 'give' then
			time, units = giveBucket(time, units, now, n, c, a, b)
		else
			local drained
			time, units, drained = slide(time, units, now, a, b)
			if op == 'charge' then
				units = units + math.min(n, math.max(0, capacity * (1 + DEBT) - (units - drained)))
			elseif not admits(units + n - capacity, drained) then
				if op ~= 'look' then
					outlive(key, time - now + units * b / a, slack)
				end
				return false, found
			else
				if n == 0 then
					return true, found
				end
				units = units + n
			end
		end
		return true, found, function()
			savePair(key, time, units, lifeOf(time - now + units * b / a, slack))
		end
	end
end
