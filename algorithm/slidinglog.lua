-- The twin of slidinglog.go: entries are a time and the units taken then; their score is the time. a is the period, c
-- is the time of a receipt.

local function logEntry(time, units)
	return struct.pack('>I7I3', time, units)
end

-- logHead returns the head of a log: the sum of the units, the time of the latest decision, and the period.
local function logHead(units, latest, period)
	return 'h' .. struct.pack('>I3I7I6', units, latest, period)
end

local function slidinglog(op, key, now, server, slack, n, capacity, a, _, c)
	local reply = redis.pcall('ZRANGE', key, 0, 0)
	if reply.err then
		return 'changed'
	end
	local head, units, latest, period = reply[1], 0, now, a
	if op == 'place' then
		n = math.min(n, capacity * (1 + DEBT))
		return true, '', function()
			saveHead(key, nil, logHead(n, c, a))
			if n > 0 then
				redis.call('ZADD', key, c, logEntry(c, n))
			end
			redis.call('PEXPIRE', key, lifeOf(c + a - now, slack))
		end
	elseif head then
		if #head ~= 17 or string.sub(head, 1, 1) ~= 'h' then
			return nil, key
		end
		units, latest, period = struct.unpack('>I3I7I6', head, 2)
	elseif op == 'give' then
		return true, ''
	end
	if head and server and latest > now then
		-- The clock has gone back: units taken after now count as taken now.
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
			head = saveHead(key, head, logHead(units, now, period))
			redis.call('PEXPIRE', key, lifeOf(math.max(a, period), slack))
		end
		latest = now
	end
	local time = math.max(now, latest)
	-- The entries of a log with another period count by that period until this step, which changes it. Entries that no
	-- longer counted at the latest decision do not count again. Giving back does not change the period.
	local since = time - (op == 'give' and period or a)
	if period ~= a and op ~= 'give' then
		local final = last(key)
		if final and math.min(final, time) <= time - period then
			since = time
		else
			since = math.max(since, latest - period)
		end
	end
	local dead = redis.call('ZRANGEBYSCORE', key, 0, since)
	local used = units - unitsOf(dead)
	local found = ''
	if head and op ~= 'give' then
		local packed
		if op == 'charge' then
			packed = summary(key, dead, used, 0, capacity + used, time)
		else
			packed = summary(key, dead, used, n, capacity, time)
		end
		if not packed then
			return nil, key
		end
		found = struct.pack('>BI6I3I7', 108, a, used, latest) .. packed
	end
	if op == 'give' then
		local entry
		if c > since then
			entry = redis.call('ZRANGEBYSCORE', key, c, c)[1]
		end
		return true, found, function()
			if entry then
				local _, had = struct.unpack('>I7I3', entry)
				local back = math.min(n, had)
				redis.call('ZREM', key, entry)
				if had > back then
					redis.call('ZADD', key, c, logEntry(c, had - back))
				end
				units = units - back
			end
			saveHead(key, head, logHead(units, time, period))
		end
	end
	if head and period ~= a and op ~= 'look' then
		if #dead > 0 then
			redis.call('ZREMRANGEBYSCORE', key, 0, since)
			dead = {}
		end
		head = saveHead(key, head, logHead(used, latest, a))
	end
	if op == 'charge' then
		n = math.min(n, math.max(0, capacity * (1 + DEBT) - used))
		if n == 0 then
			saveHead(key, head, logHead(head and struct.unpack('>I3', head, 2) or 0, time, a))
		end
	elseif used + n > capacity then
		if op ~= 'look' then
			if server then
				removeDead(key, head, dead, since, logHead(used, latest, a))
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
		saveHead(key, head, logHead(used + n, time, a))
		redis.call('PEXPIRE', key, lifeOf(time + a - now, slack))
	end
end
