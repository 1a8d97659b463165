-- A pair is a time and units: 12 bytes, 13 if there are very many units.
local function packPair(time, units)
	if units < 1099511627776 then
		return struct.pack('>I7I5', time, units)
	end
	return struct.pack('>I7I6', time, units)
end

-- loadPair returns the time, the units, and how they are kept; nil and the key if that is no pair. What somebody else
-- wrote, if it is text, reads as a time that never comes.
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
	if not time or time >= 9007199254740992 then
		return nil, key
	end
	return time, units, value
end
