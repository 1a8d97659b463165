-- The twin of noonwindow.go: s[1] has the units of the window that holds the latest decision.
local function noonBegin(t, a)
	local _, into = scale(t - math.floor(a / 2), 1, a)
	return t - into
end

local noonwindow = counters({
	advance = function(s, from, to, a)
		if noonBegin(from, a) ~= noonBegin(to, a) then
			s[1] = 0
		end
	end,
	used = function(s)
		return s[1]
	end,
	ends = function(_, at, a)
		return noonBegin(at, a) + a
	end,
	add = function(s, _, n)
		s[1] = s[1] + n
	end,
	remove = function(s, at, n, taken, a)
		if noonBegin(taken, a) == noonBegin(at, a) then
			s[1] = math.max(0, s[1] - n)
		end
	end,
})
