-- The twin of bucket.go: units consumed since an anchor time at which none of them had drained, and when the latest decision
-- was that changed them. Kept are the rate, the time of that decision, the time since the anchor, and the units: in 23 bytes,
-- or in 32 if the numbers are large.

local function packBucket(a, b, time, units, last)
	if a < 65536 and b < 1099511627776 and units < 16777216 then
		return struct.pack('>BI2I5I7I5I3', 98, a, b, last, last - time, units)
	end
	return struct.pack('>BI6I6I7I6I6', 66, a, b, last, last - time, units)
end

-- loadBucket returns the anchor, the units, the time of the latest decision, how they are kept, and the rate; false if what is
-- there is not a bucket.
local function loadBucket(key)
	local value = redis.pcall('GET', key)
	if not value then
		return nil
	end
	local kind, rateUnits, rateMicros, last, since, units
	if #value == 23 then
		kind, rateUnits, rateMicros, last, since, units = struct.unpack('>BI2I5I7I5I3', value)
	elseif #value == 32 then
		kind, rateUnits, rateMicros, last, since, units = struct.unpack('>BI6I6I7I6I6', value)
	end
	if kind ~= 98 and kind ~= 66 or last >= 9007199254740992 then
		return false
	end
	return last - since, units, last, value, rateUnits, rateMicros
end

local function slide(time, units, last, now, rateUnits, rateMicros)
	if units == 0 then
		return math.max(now, last), 0, 0
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

-- carryBucket returns a bucket that was written under another rate as one that took, at the latest decision, all that was in
-- it then, a started unit as a whole one; or nothing, if it has drained.
local function carryBucket(time, units, last, now, rateUnits, rateMicros)
	local _, left = slide(time, units, last, now, rateUnits, rateMicros)
	if left == 0 then
		last = math.max(now, last)
		return last, 0, last
	end
	local _, held, drained = slide(time, units, last, last, rateUnits, rateMicros)
	return last, held - drained, last
end

-- giveBucket is in bucketgive.lua, which only scripts that give back have: Redis makes every function again for each call.
local giveBucket

-- bucket is the step of all algorithms of this kind. What would be in the bucket beyond its capacity must have drained.
--
-- A step returns whether it allows, the state that it found, and how to write what it has come to, if that is anything new:
-- 'SET', a value, and for how many milliseconds it is kept; or a function, and what it takes behind the key. If what is there
-- is a state of another limit, or none, it returns 'changed' instead; nil, and which key, if it cannot be any. a and b are the
-- rate, c the time of a receipt. To place is to take n units at the time c for a key that is not there, whatever the limit
-- says: they were taken then under another one.
--
-- Expiry is not what decides, so it comes late, by the slack.
local function bucket(op, key, now, server, slack, n, capacity, a, b, c)
	local time, units, last, found, rateUnits, rateMicros = loadBucket(key)
	local carried = false
	if time then
		if server and last > now then
			time, last = math.min(time, now), now
			found = packBucket(rateUnits, rateMicros, time, units, last)
			if op ~= 'look' then
				redis.call('SET', key, found, 'PX', math.ceil(math.min(units * b / a, 9007199254740992) / 1000) + slack)
			end
		end
		if op ~= 'give' and (rateUnits ~= a or rateMicros ~= b) then
			time, units, last = carryBucket(time, units, last, now, rateUnits, rateMicros)
			found, carried = packBucket(a, b, time, units, last), true
		end
	elseif time == false then
		return 'changed'
	else
		if op == 'give' then
			return true, ''
		end
		time, units, last, found = 0, 0, 0, ''
	end
	if op == 'give' then
		time, units, last = giveBucket(time, units, last, now, n, c, rateUnits, rateMicros, a, b)
		a, b = rateUnits, rateMicros -- the limit that is in force stays
	elseif op == 'place' then
		time, units, last = c, n, c
	else
		local drained
		time, units, drained = slide(time, units, last, now, a, b)
		if op == 'charge' then
			units = units + math.min(n, math.max(0, capacity * 11 - (units - drained))) -- a debt of ten capacities
		elseif units + n - capacity - drained > 0 then
			if op ~= 'look' then
				local life = math.ceil(math.max(0, math.min(time - now + units * b / a, 9007199254740992)) / 1000)
				if carried then
					redis.call('SET', key, found, 'PX', life + slack)
				elseif redis.call('PTTL', key) < life then
					-- What was written under a limit of a shorter memory is kept for as long as it is denied.
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
		last = math.max(now, last)
	end
	-- A debt of another limit may last longer than Redis can say.
	local rest = math.max(0, math.min(time - now + units * b / a, 9007199254740992))
	return true, found, 'SET', packBucket(a, b, time, units, last), math.ceil(rest / 1000) + slack
end
