-- room returns how many units a window can still take: less than 0 if it is in debt.
local function room(found, now, capacity, a, b)
	if found == '' then
		return capacity
	end
	local _, _, time, units = struct.unpack('>BI6I7I6', found)
	local latest = math.max(b > 0 and now - (b - 1) or now, time)
	local into = latest % a
	if into < 0 then -- the quotient was rounded up
		into = into + a
	end
	if time < latest - into then
		return capacity
	end
	return capacity - units
end
