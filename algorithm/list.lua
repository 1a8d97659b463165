-- Shared by sliding-log and concurrency: a sorted set of entries by time. Its first member, with a score below any
-- time, is a head with the sum of their units and the latest time seen, and for a log the period.
local BEFORE = -1

-- saveHead replaces the old head if the new one differs, and returns the new one. It adds before it removes, because
-- Redis deletes a set that becomes empty, and its expiry with it.
local function saveHead(key, old, head)
	if head ~= old then
		redis.call('ZADD', key, BEFORE, head)
		if old then
			redis.call('ZREM', key, old)
		end
	end
	return head
end

-- unitsOf returns the sum of the units of entries, which are the last three bytes of each.
local function unitsOf(entries)
	local sum = 0
	for i = 1, #entries do
		sum = sum + struct.unpack('>I3', entries[i], #entries[i] - 2)
	end
	return sum
end

-- removeDead removes the dead entries, up to a score, of a key that was denied, if there are many: otherwise every
-- retry of a client would read them. It is called only with the server's clock, which does not go back to when they
-- were live.
local function removeDead(key, head, dead, score, new)
	if #dead >= 64 then
		redis.call('ZREMRANGEBYSCORE', key, 0, score)
		saveHead(key, head, new)
	end
end

-- freed returns the first score at which at least so many of the used units will have expired, and how many will have
-- by then; nil if there are not that many. first is the rank of the first live entry. The search starts from the nearer
-- end.
local function freed(key, first, used, units)
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

-- summary packs the live entries as two at most, which is all that a decision needs: if n units are denied, one for the
-- units that must expire until they are allowed; and the last. Scores are cut to the ceiling, in case the clock has
-- gone back. It returns nil if the entries contradict the head: then another program has changed them.
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
	local score, passed = freed(key, #dead + 1, used, used + n - capacity)
	if not score then
		return nil
	end
	score = math.min(score, ceiling)
	if passed == used then
		return struct.pack('>I7I3', score, passed)
	end
	return struct.pack('>I7I3I7I3', score, passed, final, used - passed)
end
