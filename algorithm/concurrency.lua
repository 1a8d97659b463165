-- The twin of concurrency.go: entries are a lease and the units it holds; their score is when it expires. a is the TTL,
-- b is the lease, c is how many units it took. The op 'renew' has the same arguments as 'take'.

local function leaseEntry(lease, units)
	return struct.pack('>I7I3', lease, units)
end

-- leaseHead returns the head of a set of leases.
local function leaseHead(units, latest)
	return 'h' .. struct.pack('>I3I7', units, latest)
end

-- findLease returns the entry of a lease and its units. A lease holds as many units as it took, unless some were given
-- back; then it is searched for, if there are at most 1024 entries. A lease that is not found is held until it expires.
local function findLease(key, lease, took)
	local entry = leaseEntry(lease, took)
	if redis.call('ZSCORE', key, entry) then
		return entry, took
	end
	if redis.call('ZCARD', key) > 1024 then
		return nil
	end
	for _, other in ipairs(redis.call('ZRANGE', key, 1, -1)) do
		local name, units = struct.unpack('>I7I3', other)
		if name == lease then
			return other, units
		end
	end
	return nil
end

local function concurrency(op, key, now, server, slack, n, capacity, a, b, c)
	local head = redis.call('ZRANGE', key, 0, 0)[1]
	local units, latest
	if head then
		if #head ~= 11 or string.sub(head, 1, 1) ~= 'h' then
			return nil, key
		end
		units, latest = struct.unpack('>I3I7', head, 2)
	end
	if not head then
		if op == 'give' then
			return true, ''
		end
		units, latest = 0, now
	elseif server and latest > now then
		-- The clock has gone back: no lease is held for longer than one taken now.
		if op ~= 'look' then
			for _, entry in ipairs(redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', now + a), '+inf')) do
				redis.call('ZADD', key, now + a, entry)
			end
			head = saveHead(key, head, leaseHead(units, now))
		end
		latest = now
	end
	if op == 'give' then
		local entry, had = findLease(key, b, c)
		if not entry then
			return true, ''
		end
		return true, '', function()
			local back = math.min(n, had)
			local score = redis.call('ZSCORE', key, entry)
			redis.call('ZREM', key, entry)
			if had > back then
				redis.call('ZADD', key, score, leaseEntry(b, had - back))
			end
			saveHead(key, head, leaseHead(units - back, latest))
		end
	end
	local time = math.max(now, latest)
	local dead = redis.call('ZRANGEBYSCORE', key, 0, time)
	local used = units - unitsOf(dead)
	local found = ''
	if head then
		local ceiling = NEVER
		if server then
			ceiling = math.max(time + a, now)
		end
		local packed = summary(key, dead, used, n, capacity, ceiling)
		if not packed then
			return nil, key
		end
		found = struct.pack('>I7', latest) .. packed
	end
	local renewed = false
	if op == 'renew' then
		-- A live lease is written again with its new expiry, even if the limit is exceeded.
		local entry, had = findLease(key, b, n)
		if entry and tonumber(redis.call('ZSCORE', key, entry)) > time then
			used, n, renewed = used - had, had, true
		end
	end
	if used + n > capacity and not renewed then
		if server and op ~= 'look' then
			removeDead(key, head, dead, time, leaseHead(used, latest))
		end
		return false, found
	elseif n == 0 then
		return true, found
	end
	return true, found, function()
		if #dead > 0 then
			redis.call('ZREMRANGEBYSCORE', key, 0, time)
		end
		redis.call('ZADD', key, time + a, leaseEntry(b, n))
		saveHead(key, head, leaseHead(used + n, time))
		redis.call('PEXPIRE', key, lifeOf(last(key) - now, slack))
	end
end
