-- What is kept under a key, and for how long.

-- DEBT is how many capacities a charge may go beyond the limit.
local DEBT = 10

-- NEVER is later than any time. What somebody else wrote, if it is text, reads as later still.
local NEVER = 9007199254740992

-- A pair is a time and units: 12 bytes, 13 if there are very many units.
local function packPair(time, units)
	if units < 1099511627776 then
		return struct.pack('>I7I5', time, units)
	end
	return struct.pack('>I7I6', time, units)
end

-- loadPair returns the time, the units, and how they are kept; nil and the key if that is no pair.
local function loadPair(key)
	local value = redis.call('GET', key)
	if not value then
		return nil
	end
	local time, units
	if #value == 12 then
		time, units = struct.unpack('>I7I5', value)
	elseif #value == 13 then
		time, units = struct.unpack('>I7I6', value)
	end
	if not time or time >= NEVER then
		return nil, key
	end
	return time, units, value
end

local function savePair(key, time, units, life)
	redis.call('SET', key, packPair(time, units), 'PX', life)
end

-- lifeOf returns for how many milliseconds a key is kept that is as good as none after so many microseconds. Expiry is
-- not what decides, so it comes late, by the slack; a debt of another limit may last longer than Redis can say.
local function lifeOf(micros, slack)
	if micros < 0 then
		micros = 0
	elseif micros > NEVER then
		micros = NEVER
	end
	return math.ceil(micros / 1000) + slack
end

-- outlive sees that a key that was denied is kept for as long as that lasts: the limit under which it was written may have
-- been one of a shorter memory.
local function outlive(key, micros, slack)
	local life = lifeOf(micros, slack)
	if redis.call('PTTL', key) < life - slack then
		redis.call('PEXPIRE', key, life)
	end
end
