-- room returns how many units can still be taken: less than 0 if the key is in debt.
local function room(found, now, capacity, a)
	if found == '' then
		return capacity
	end
	local _, _, time, current, previous = struct.unpack('>BI6I7I6I6', found)
	local latest = math.max(now, time)
	local _, into = scale(latest, 1, a)
	local begin = latest - into
	if time < begin - a then
		return capacity
	elseif time < begin then
		current, previous = 0, current
	end
	local weight, rest = scale(a - into, previous, a)
	if 2 * rest > a then
		weight = weight + 1
	end
	return capacity - current - weight
end
