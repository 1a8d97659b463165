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
		if op ~= 'look' then
			local moved = unitsOf(redis.call('ZRANGEBYSCORE', key, now, '+inf'))
			if moved > 0 then
				redis.call('ZADD', key, now, logEntry(now, moved))
				redis.call('ZREMRANGEBYSCORE', key, string.format('(%.0f', now), '+inf')
				for _, entry in ipairs(redis.call('ZRANGEBYSCORE', key, now, now)) do
					if entry ~= logEntry(now, moved) then
						redis.call('ZREM', key, entry)
					end
				end
			end
			head = saveHead(key, head, units, now)
			redis.call('PEXPIRE', key, lifeOf(a, slack))
		end
		latest = now
	end
	local time = math.max(now, latest)
	local since = time - a
	local dead = redis.call('ZRANGEBYSCORE', key, 0, since)
	local used = units - unitsOf(dead)
	local found = ''
	if head and op ~= 'give' then
		local told
		if op == 'charge' then
			told = summary(key, dead, used, 0, capacity + used, time)
		else
			told = summary(key, dead, used, n, capacity, time)
		end
		if not told then
			return nil, key
		end
		found = struct.pack('>I3I7', used, latest) .. told
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
		if op ~= 'look' then
			if server then
				bury(key, head, dead, since, used, latest)
			end
			outlive(key, last(key) + a - now, slack)
		end
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
