-- The twin of slidingbuckets.go: the width of a bucket, the number of the newest one since 1970, and a ring of counts. a
-- is the width, b how many buckets there are, c the time of a receipt.
--
-- Kept are one byte for how many bytes a count takes, the width, the number, and the counts.
local HEAD = 14

local function loadRing(key)
	local value = redis.call('GET', key)
	if not value then
		return nil
	end
	local size = #value
	if size < HEAD then
		return nil, key
	end
	local bytes, width, newest = struct.unpack('>BI6I7', value)
	if bytes < 1 or bytes > 6 or width < 1 or newest * width >= NEVER or (size - HEAD) % bytes ~= 0 then
		return nil, key
	end
	local buckets = (size - HEAD) / bytes
	if buckets < 1 or buckets > 1000 then
		return nil, key
	end
	local counts = { struct.unpack('>' .. string.rep('I' .. bytes, buckets), value, HEAD + 1) }
	counts[buckets + 1] = nil -- where unpack ended
	return width, newest, counts
end

local function packRing(width, newest, counts)
	local most = 0
	for i = 1, #counts do
		most = math.max(most, counts[i])
	end
	local bytes = 1
	while most >= 256 ^ bytes do
		bytes = bytes + 1
	end
	return struct.pack('>BI6I7' .. string.rep('I' .. bytes, #counts), bytes, width, newest, unpack(counts))
end

local function emptyRing(buckets)
	local counts = {}
	for i = 1, buckets do
		counts[i] = 0
	end
	return counts
end

-- recut spreads the counts of other buckets over these.
local function recut(oldWidth, oldNewest, old, now, width, buckets)
	now = math.max(now, oldNewest * oldWidth)
	local newest = scale(now, 1, width)
	local counts = emptyRing(buckets)
	for i = oldNewest - #old + 1, oldNewest do
		local to = math.floor(math.min((i + 1) * oldWidth - 1, now) / width)
		if to > newest - buckets then
			local place = to % buckets + 1
			counts[place] = counts[place] + old[i % #old + 1]
		end
	end
	return newest, counts
end

local function slidingbuckets(op, key, now, server, slack, n, capacity, a, b, c)
	local width, newest, counts = loadRing(key)
	local found = ''
	local bucket = scale(now, 1, a)
	if width then
		if server and newest * width > now then
			-- The clock has gone back: every bucket is as old as it was.
			local present = scale(now, 1, width)
			local shifted = {}
			for i = 0, #counts - 1 do
				shifted[(present - i) % #counts + 1] = counts[(newest - i) % #counts + 1]
			end
			newest, counts = present, shifted
			if op ~= 'look' then
				redis.call('SET', key, packRing(width, newest, counts), 'PX', lifeOf(#counts * width, slack))
			end
		end
		found = packRing(width, newest, counts)
		if width ~= a or #counts ~= b then
			newest, counts = recut(width, newest, counts, now, a, b)
		end
	elseif newest then
		return nil, newest
	else
		if op == 'give' then
			return true, found
		end
		newest, counts = bucket, emptyRing(b)
	end
	for i = newest + 1, math.min(bucket, newest + b) do
		counts[i % b + 1] = 0
	end
	newest = math.max(newest, bucket)
	if op == 'give' then
		local i = scale(c, 1, a)
		if i > newest - b and i <= newest then
			local place = i % b + 1
			counts[place] = math.max(0, counts[place] - n)
		end
	else
		local used = 0
		for i = 1, b do
			used = used + counts[i]
		end
		if op == 'charge' then
			n = math.min(n, math.max(0, capacity * (1 + DEBT) - used))
		elseif used + n > capacity then
			if op ~= 'look' then
				outlive(key, (newest + b) * a - now, slack)
			end
			return false, found
		elseif n == 0 then
			return true, found
		end
		local place = newest % b + 1
		counts[place] = counts[place] + n
	end
	return true, found, function()
		redis.call('SET', key, packRing(a, newest, counts), 'PX', lifeOf((newest + b) * a - now, slack))
	end
end
