-- The twin of counters.go: steps for an algorithm whose state is a few numbers. The value is the algorithm, the period,
-- the time of the latest decision, and the numbers. a is the period, b is the number of the algorithm, c is the time of
-- a receipt.
--
-- counters returns the step of an algorithm that has five functions on a table s of four numbers: advance(s, from, to,
-- a) moves them from one time to another; used(s, at, a) returns how many units count; ends(s, at, a) returns when none
-- will count; add(s, at, n, a) takes n units; remove(s, at, n, taken, a) gives back n units that were taken earlier.
local COUNTERS = '>BBI6I7I7I7I7I7'

local function packCounters(a, b, latest, s)
	return struct.pack(COUNTERS, 99, b, a, latest, s[1], s[2], s[3], s[4])
end

local function counters(counter)
	return function(op, key, now, server, slack, n, capacity, a, b, c)
		local value, found = redis.pcall('GET', key), ''
		local latest, s = now, { 0, 0, 0, 0 }
		if value then
			if #value ~= 43 then
				return 'changed'
			end
			local kind, algorithm, period
			kind, algorithm, period, latest, s[1], s[2], s[3], s[4] = struct.unpack(COUNTERS, value)
			if kind ~= 99 or algorithm ~= b or period ~= a then
				return 'changed'
			end
			found = value
			if server and latest > now then
				latest = now
				found = packCounters(a, b, latest, s)
				if op ~= 'look' then
					redis.call('SET', key, found, 'PX', lifeOf(counter.ends(s, now, a) - now, slack))
				end
			end
		elseif op == 'give' then
			return true, ''
		elseif op == 'place' then
			counter.add(s, c, n, a)
			return true, '', 'SET', packCounters(a, b, c, s), lifeOf(counter.ends(s, c, a) - now, slack)
		end
		local time = math.max(now, latest)
		counter.advance(s, latest, time, a)
		if op == 'give' then
			counter.remove(s, time, n, c, a)
		else
			local used = counter.used(s, time, a)
			if op == 'charge' then
				n = math.min(n, math.max(0, capacity * (1 + DEBT) - used))
			elseif used + n > capacity then
				if op ~= 'look' then
					outlive(key, counter.ends(s, time, a) - now, slack)
				end
				return false, found
			elseif n == 0 then
				return true, found
			end
			counter.add(s, time, n, a)
		end
		return true, found, 'SET', packCounters(a, b, time, s), lifeOf(counter.ends(s, time, a) - now, slack)
	end
end
