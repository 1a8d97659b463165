-- The twin of bucket.go: at the anchor time the bucket held units, of which none had drained. The value is the rate,
-- the time of the latest decision, that time minus the anchor, and the units: 23 bytes, or 32 if the numbers are large.

local function packBucket(a, b, time, units, last)
	if a < 65536 and b < 1099511627776 and units < 16777216 and last - time < 1099511627776 then
		return struct.pack('>BI2I5I7I5I3', 98, a, b, last, last - time, units)
	end
	return struct.pack('>BI6I6I7I6I6', 66, a, b, last, last - time, units)
end

-- loadBucket returns the anchor, the units, the time of the latest decision, the packed value, and the rate; false if
-- the value is not a bucket.
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

-- levelAt returns the level at the time of the latest decision, rounded up.
local function levelAt(time, units, last, rateUnits, rateMicros)
	local _, held, drained = slide(time, units, last, last, rateUnits, rateMicros)
	return held - drained
end

-- convertBucket converts a bucket of another rate: it returns a bucket that took, at the latest decision, all that was
-- in it then, rounded up; or an empty one, if it has drained by now.
local function convertBucket(time, units, last, now, rateUnits, rateMicros)
	local _, left = slide(time, units, last, now, rateUnits, rateMicros)
	if left == 0 then
		last = math.max(now, last)
		return last, 0, last
	end
	return last, levelAt(time, units, last, rateUnits, rateMicros), last
end

-- giveBucket is in bucketgive.lua, which only scripts that give back include: Redis creates every function for each
-- call.
local giveBucket

-- bucket is the step of all algorithms with a bucket.
--
-- A step returns whether it allows, the state that it found, and how to write the new state, if there is one: 'SET', a
-- value, and its time to live in milliseconds; or a function, and its arguments after the key. If the value is one of
-- another limit, or of another program, the step returns 'changed'; if it is certainly of another program, nil and the
-- key. a and b are the rate, c is the time of a receipt. The op 'place' takes n units at the time c for a key that does
-- not exist, whatever the limit says: they were taken then under another limit.
--
-- No decision depends on expiry, so keys expire later than they must, by slack milliseconds.
local function bucket(op, key, now, server, slack, n, capacity, a, b, c)
	local time, units, last, found, rateUnits, rateMicros = loadBucket(key)
	local converted = false
	if time then
		if server and last > now then
			time, last = math.min(time, now), now
			found = packBucket(rateUnits, rateMicros, time, units, last)
			if op ~= 'look' then
				redis.call('SET', key, found, 'PX', math.ceil(math.min(units * b / a, 9007199254740992) / 1000) + slack)
			end
		end
		if op ~= 'give' and (rateUnits ~= a or rateMicros ~= b) then
			time, units, last = convertBucket(time, units, last, now, rateUnits, rateMicros)
			found, converted = packBucket(a, b, time, units, last), true
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
		local anchor, before, drained = time, units
		time, units, drained = slide(time, units, last, now, a, b)
		if op == 'charge' then
			units = units + math.min(n, math.max(0, capacity * 11 - (units - drained))) -- a debt of ten capacities
		elseif units + n - capacity - drained > 0 then
			if op ~= 'look' then
				local life = math.ceil(math.max(0, math.min(time - now + units * b / a, 9007199254740992)) / 1000)
				local level, state = units - drained, converted and found
				if now > last and (level > capacity or before > level and levelAt(anchor, before, last, a, b) > level) then
					-- The denial counts as the latest decision: see denyBucket. The value has no room for 9 years since the anchor.
					if now - anchor >= 281474976710656 then
						anchor, before = time, units
					end
					state = packBucket(a, b, anchor, before, now)
				end
				if state then
					redis.call('SET', key, state, 'PX', life + slack)
				elseif redis.call('PTTL', key) < life then
					-- It may have been written under a limit with a shorter period. A denied key must not expire before it is allowed.
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
	-- A debt converted from another limit may last longer than the longest time to live that Redis takes.
	local rest = math.max(0, math.min(time - now + units * b / a, 9007199254740992))
	return true, found, 'SET', packBucket(a, b, time, units, last), math.ceil(rest / 1000) + slack
end
