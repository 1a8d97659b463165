-- room returns how many units fit a window as it was found. It may be in debt.
local function room(found, now, capacity, a, b)
	if found == '' then
		return capacity
	end
	local time, units = struct.unpack(#found == 12 and '>I7I5' or '>I7I6', found)
	local latest = math.max(now - b, time)
	local into = latest % a
	if into < 0 then -- the quotient was rounded up
		into = into + a
	end
	if time < latest - into then
		return capacity
	end
	return capacity - units
end
