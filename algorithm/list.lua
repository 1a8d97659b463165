-- What sliding-log and concurrency share: a sorted set of entries by time, in front of which, at a score below any time,
-- stands a head with the sum of their units and the latest time seen, and for a log the period.
local BEFORE = -1

-- saveHead puts a new head in the place of the old one, if it is another, and returns it. The set is never empty meanwhile:
-- Redis would forget it, and with it when it expires.
local function saveHead(key, old, head)
	if head ~= old then
		redis.call('ZADD', key, BEFORE, head)
		if old then
			redis.call('ZREM', key, old)
		end
	end
	return head
end

-- unitsOf returns the sum of the units of entries, which stand last in each.
local function unitsOf(entries)
	local sum = 0
	for i = 1, #entries do
		sum = sum + struct.unpack('>I3', entries[i], #entries[i] - 2)
	end
	return sum
end

-- bury forgets the dead entries, up to a score, of a key that was denied if there are many: a client that keeps trying
-- would have them read each time. Only by the server's clock, which does not go back to when they lived.
local function bury(key, head, dead, score, new)
	if #dead >= 64 then
		redis.call('ZREMRANGEBYSCORE', key, 0, score)
		saveHead(key, head, new)
	end
end

-- shed returns the score at which so many units have passed, of those that are used, and how many have by then; nil if
-- there are not that many. It walks from the nearer end; the first entry that lives has that rank.
local function shed(key, first, used, units)
	local batch, from, sum = 4, 0, 0
	if 2 * units <= used then
		from = first
		while true do
			local some = redis.call('ZRANGE', key, from, from + batch - 1, 'WITHSCORES')
			if #some == 0 then
				return nil
			end
			for i = 1, #some, 2 do
				sum = sum + struct.unpack('>I3', some[i], #some[i] - 2)
				if sum >= units then
					return tonumber(some[i + 1]), sum
				end
			end
			from, batch = from + batch, math.min(2 * batch, 256)
		end
	end
	while true do
		local some = redis.call('ZREVRANGE', key, from, from + batch - 1, 'WITHSCORES')
		for i = 1, #some, 2 do
			if tonumber(some[i + 1]) == BEFORE then
				return nil
			end
			local more = struct.unpack('>I3', some[i], #some[i] - 2)
			if sum + more > used - units then
				return tonumber(some[i + 1]), used - sum
			end
			sum = sum + more
		end
		from, batch = from + batch, math.min(2 * batch, 256)
	end
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

-- summary packs what a decision needs to know of the entries that live: where enough of them have passed if n do not fit,
-- and the last. No score is above the ceiling, where a clock that has gone back would have brought them. It is nil if they
-- are not what the head says: somebody else has been there.
local function summary(key, dead, used, n, capacity, ceiling)
	if used == 0 then
		return ''
	end
	local final = last(key)
	if used < 0 or not final then
		return nil
	end
	if n > capacity then
		n = 0
	end
	final = math.min(final, ceiling)
	if used + n <= capacity then
		return struct.pack('>I7I3', final, used)
	end
	local score, passed = shed(key, #dead + 1, used, used + n - capacity)
	if not score then
		return nil
	end
	score = math.min(score, ceiling)
	if passed == used then
		return struct.pack('>I7I3', score, passed)
	end
	return struct.pack('>I7I3I7I3', score, passed, final, used - passed)
end
