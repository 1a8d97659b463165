-- room returns how many units a bucket can still take: less than 0 if it is in debt.
local function room(found, now, capacity, a, b)
	if found == '' then
		return capacity
	end
	local _, _, _, last, since, units = struct.unpack(#found == 23 and '>BI2I5I7I5I3' or '>BI6I6I7I6I6', found)
	local _, left, drained = slide(last - since, units, last, now, a, b)
	return capacity - left + drained
end
