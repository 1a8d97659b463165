-- room returns how many units fit a bucket as it was found. It may be in debt.
local function room(found, now, capacity, a, b)
	if found == '' then
		return capacity
	end
	local time, units = struct.unpack(#found == 12 and '>I7I5' or '>I7I6', found)
	local _, left, drained = slide(time, units, now, a, b)
	return capacity - left + drained
end
