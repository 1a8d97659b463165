-- What sliding-log and concurrency share: a sorted set of entries by time, in front of which, at a score below any time,
-- stands a head with the sum of their units and the latest time seen.
local BEFORE = -1

-- loadList returns the head as it is kept, the sum, and the latest time.
local function loadList(key)
	local head = redis.call('ZRANGE', key, 0, 0)[1]
	if not head then
		return nil
	end
	if #head ~= 11 or string.sub(head, 1, 1) ~= 'h' then
		return nil, key
	end
	return head, struct.unpack('>I3I7', head, 2)
end

local function saveHead(key, old, units, latest)
	if old then
		redis.call('ZREM', key, old)
	end
	redis.call('ZADD', key, BEFORE, 'h' .. struct.pack('>I3I7', units, latest))
end

-- unitsOf returns the sum of the units of entries, which stand last in each.
local function unitsOf(entries)
	local sum = 0
	for i = 1, #entries do
		sum = sum + struct.unpack('>I3', entries[i], #entries[i] - 2)
	end
	return sum
end

-- shed walks from the first entry after a score to where so many units are passed, and returns the score reached and the
-- units passed.
local function shed(key, after, units)
	local passed, from, score = 0, 0, nil
	repeat
		local some = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', after), '+inf', 'WITHSCORES', 'LIMIT', from, 64)
		for i = 1, #some, 2 do
			passed = passed + struct.unpack('>I3', some[i], #some[i] - 2)
			score = tonumber(some[i + 1])
			if passed >= units then
				return score, passed
			end
		end
		from = from + 64
	until #some == 0
	return score, passed
end

-- last returns the highest score of an entry, or nil.
local function last(key)
	local entry = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
	local score = tonumber(entry[2])
	if score and score ~= BEFORE then
		return score, entry[1]
	end
	return nil
end

-- summary packs what a decision needs to know of the entries after a score: where enough of them have passed if n do not
-- fit, and the last.
local function summary(key, after, used, n, capacity)
	if used <= 0 then
		return ''
	end
	local final = last(key)
	if used + n <= capacity then
		return struct.pack('>I7I3', final, used)
	end
	local score, passed = shed(key, after, used + n - capacity)
	if passed == used then
		return struct.pack('>I7I3', score, passed)
	end
	return struct.pack('>I7I3I7I3', score, passed, final, used - passed)
end
