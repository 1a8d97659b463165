-- convert converts the state of another limit. Only the caller can compute what was consumed under that limit, so this
-- takes two calls. In the first, convert returns the state that it found. In the second, the argument has, after its
-- first size bytes, when and how much was consumed, and the state that was found before. If the state has not changed
-- since, convert replaces it and returns nil. A log, which may have many entries, is returned with all its units in its
-- last entry. If the value is not a state, convert returns false and the key.
local function convert(step, asked, size, key, now, server, slack, capacity, a, b)
	local found = redis.pcall('GET', key)
	if type(found) ~= 'string' then
		local head = redis.pcall('ZRANGE', key, 0, 0)[1]
		if not head or #head ~= 17 then
			return false, key
		end
		local units, latest, period = struct.unpack('>I3I7I6', head, 2)
		local dead = redis.call('ZRANGEBYSCORE', key, 0, latest - period)
		for i = 1, #dead do
			units = units - struct.unpack('>I3', dead[i], #dead[i] - 2)
		end
		found = struct.pack('>BI6I3I7', 108, period, units, latest)
		if units > 0 then
			local final = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
			found = found .. struct.pack('>I7I3', tonumber(final[2]), units)
		end
	end
	if found == '' then
		return false, key
	end
	if #asked == size or string.sub(asked, size + 15) ~= found then
		return found
	end
	local at, units = struct.unpack('>I7I7', asked, size + 1)
	if server then
		at = math.min(at, now)
	end
	redis.call('DEL', key)
	local _, _, write, w1, w2, w3, w4, w5 = step('place', key, now, server, slack, units, capacity, a, b, at)
	if write == 'SET' then
		redis.call('SET', key, w1, 'PX', w2)
	else
		write(key, w1, w2, w3, w4, w5)
	end
	return nil
end
