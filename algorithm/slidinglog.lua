-- The twin of slidinglog.go: entries are a time and how many units were taken then; their score is the time. a is the
-- period, c the time of a receipt.

local function logEntry(time, units)
	return struct.pack('>I7I3', time, units)
end

local function slidinglog(op, key, now, server, slack, n, capacity, a, _, c)
	local head, units, latest = loadList(key)
	if not head then
		if units then
			return nil, units
		end
		if op == 'give' then
			return true, ''
		end
		units, latest = 0, now
	elseif server and latest > now then
		-- The clock has gone back: what was taken later was taken now.
		local future = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', now), '+inf')
		local same = redis.call('ZRANGEBYSCORE', key, now, now)
		if op ~= 'look' then
			local moved = unitsOf(future) + unitsOf(same)
			redis.call('ZREMRANGEBYSCORE', key, now, '+inf')
			if moved > 0 then
				redis.call('ZADD', key, now, logEntry(now, moved))
			end
			saveHead(key, head, units, now)
			head = 'h' .. struct.pack('>I3I7', units, now)
		end
		latest = now
	end
	local time = math.max(now, latest)
	local since = time - a
	local dead = redis.call('ZRANGEBYSCORE', key, 0, since)
	local used = units - unitsOf(dead)
	local found = ''
	if head then
		found = struct.pack('>I3I7', used, latest)
		if op == 'charge' then
			found = found .. summary(key, since, used, 0, capacity + used)
		elseif op ~= 'give' then
			found = found .. summary(key, since, used, n, capacity)
		end
	end
	if op == 'give' then
		if c <= since then
			return true, found
		end
		local entry = redis.call('ZRANGEBYSCORE', key, c, c)[1]
		if not entry then
			return true, found
		end
		local _, had = struct.unpack('>I7I3', entry)
		local back = math.min(n, had)
		return true, found, function()
			redis.call('ZREM', key, entry)
			if had > back then
				redis.call('ZADD', key, c, logEntry(c, had - back))
			end
			saveHead(key, head, units - back, latest)
		end
	end
	if op == 'charge' then
		n = math.min(n, math.max(0, capacity * (1 + DEBT) - used))
	elseif used + n > capacity then
		return false, found
	end
	if n == 0 then
		return true, found
	end
	return true, found, function()
		if #dead > 0 then
			redis.call('ZREMRANGEBYSCORE', key, 0, since)
		end
		local score, entry = last(key)
		local more = n
		if score == time then
			more = n + unitsOf({ entry })
			redis.call('ZREM', key, entry)
		end
		redis.call('ZADD', key, time, logEntry(time, more))
		saveHead(key, head, used + n, time)
		redis.call('PEXPIRE', key, lifeOf(time + a - now, slack))
	end
end
