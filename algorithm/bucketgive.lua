-- asMuchAs returns the time in which a rate drains units + part/whole, rounded up: as the units that drain in its whole
-- periods, and the rest in microseconds.
local function asMuchAs(rateUnits, rateMicros, units, part, whole)
	local periods, single = scale(units, 1, rateUnits)
	local started, more = scale(part, rateMicros, whole)
	if more > 0 then
		started = started + 1
	end
	local rest, left = scale(single, rateMicros, rateUnits)
	started, more = scale(started + left, 1, rateUnits)
	rest = rest + started
	if more > 0 then
		rest = rest + 1
	end
	if rest >= rateMicros then
		return (periods + 1) * rateUnits, 0
	end
	return periods * rateUnits, rest
end

-- giveBucket gives back n units that were taken at the time at, less the part of them that has drained since. They were
-- taken under the rate ownUnits/ownMicros. If that is faster than the bucket's rate, it says how many are left.
giveBucket = function(time, units, last, now, n, at, rateUnits, rateMicros, ownUnits, ownMicros)
	time, units = slide(time, units, last, now, rateUnits, rateMicros)
	now = math.max(now, time)
	last = math.max(now, last)
	local held = math.max(0, last - at)
	local periods, rest = scale(held, 1, rateMicros)
	local gone = periods * rateUnits
	if ownUnits ~= rateUnits or ownMicros ~= rateMicros then
		local whole, short = scale(held, 1, ownMicros)
		local drained, part = scale(short, ownUnits, ownMicros)
		drained = drained + whole * ownUnits
		if drained >= n then
			return time, units, last
		end
		local ownGone, ownRest = asMuchAs(rateUnits, rateMicros, drained, part, ownMicros)
		if ownGone > gone or ownGone == gone and ownRest > rest then
			gone, rest = ownGone, ownRest
		end
	end
	if gone >= n or gone + scale(rest, rateUnits, rateMicros) >= n then
		return time, units, last
	end
	units = units - (n - gone)
	time = time + rest
	if time > last then
		time, units = time - rateMicros, units + rateUnits
	end
	if units <= 0 then
		return now, 0, last
	end
	local elapsed
	periods, elapsed = scale(math.max(0, now - time), 1, rateMicros)
	if periods * rateUnits + scale(elapsed, rateUnits, rateMicros) >= units then
		return now, 0, last
	end
	return time, units, last
end
