-- The twin of slidingbuckets.go: the time of the latest decision, which is in the newest bucket, and a ring of counts.
-- a is the width of a bucket, b is how many there are, c is the time of a receipt.
--
-- The value is one byte for the size of a count in bytes, the width, the time, and the counts.
local HEAD = 15

-- loadRing returns the time of the latest decision and the counts; false if the value is not a ring of this width and
-- number.
local function loadRing(key, a, b)
	local value = redis.pcall('GET', key)
	if not value then
		return nil
	end
	local size = #value
	if size <= HEAD then
		return false
	end
	local kind, bytes, width, latest = struct.unpack('>BBI6I7', value)
	if kind ~= 114 or width ~= a or size ~= HEAD + bytes * b then
		return false
	end
	local counts = { struct.unpack('>' .. string.rep('I' .. bytes, b), value, HEAD + 1) }
	counts[b + 1] = nil -- the position at which unpack ended
	return latest, counts
end

local function packRing(width, latest, counts)
	local most = 0
	for i = 1, #counts do
		most = math.max(most, counts[i])
	end
	local bytes = 1
	while most >= 256 ^ bytes do
		bytes = bytes + 1
	end
	return struct.pack('>BBI6I7' .. string.rep('I' .. bytes, #counts), 114, bytes, width, latest, unpack(counts))
end

local function emptyRing(buckets)
	local counts = {}
	for i = 1, buckets do
		counts[i] = 0
	end
	return counts
end

local function slidingbuckets(op, key, now, server, slack, n, capacity, a, b, c)
	local time, counts = loadRing(key, a, b)
	local found = ''
	if time then
		if server and time > now then
			-- The clock has gone back: the age of every bucket stays the same.
			local newest, present = scale(time, 1, a), scale(now, 1, a)
			local shifted = {}
			for i = 0, b - 1 do
				shifted[(present - i) % b + 1] = counts[(newest - i) % b + 1]
			end
			time, counts = now, shifted
			if op ~= 'look' then
				redis.call('SET', key, packRing(a, time, counts), 'PX', lifeOf(b * a, slack))
			end
		end
		found = packRing(a, time, counts)
	elseif time == false then
		return 'changed'
	else
		if op == 'give' then
			return true, found
		end
		time, counts = op == 'place' and c or now, emptyRing(b)
	end
	local newest = scale(time, 1, a)
	local latest = math.max(now, time)
	if op == 'place' then
		latest = c
	end
	local bucket = scale(latest, 1, a)
	for i = newest + 1, math.min(bucket, newest + b) do
		counts[i % b + 1] = 0
	end
	if op == 'give' then
		local i = scale(c, 1, a)
		if i > bucket - b and i <= bucket then
			local index = i % b + 1
			counts[index] = math.max(0, counts[index] - n)
		end
	else
		local used = 0
		for i = 1, b do
			used = used + counts[i]
		end
		if op == 'charge' then
			n = math.min(n, math.max(0, capacity * (1 + DEBT) - used))
		elseif op ~= 'place' then
			if used + n > capacity then
				if op ~= 'look' then
					outlive(key, (bucket + b) * a - now, slack)
				end
				return false, found
			elseif n == 0 then
				return true, found
			end
		end
		local index = bucket % b + 1
		counts[index] = counts[index] + n
	end
	return true, found, function()
		redis.call('SET', key, packRing(a, latest, counts), 'PX', lifeOf((bucket + b) * a - now, slack))
	end
end
