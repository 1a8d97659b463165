-- giveBucket returns n units taken at a time, less what has drained of them since.
giveBucket = function(time, units, last, now, n, at, rateUnits, rateMicros)
	now = math.max(now, last)
	time, units = slide(time, units, last, now, rateUnits, rateMicros)
	now = math.max(now, time)
	local periods, rest = scale(math.max(0, now - at), 1, rateMicros)
	local gone = periods * rateUnits
	if gone >= n or gone + scale(rest, rateUnits, rateMicros) >= n then
		return time, units, now
	end
	units = units - (n - gone)
	time = time + rest
	if time > now then
		time, units = time - rateMicros, units + rateUnits
	end
	if units <= 0 then
		return now, 0, now
	end
	local elapsed
	periods, elapsed = scale(now - time, 1, rateMicros)
	if periods * rateUnits + scale(elapsed, rateUnits, rateMicros) >= units then
		return now, 0, now
	end
	return time, units, now
end
