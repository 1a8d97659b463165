-- Whole numbers below 2^53 are exact in Lua. The product of a count and a time may be larger, so it is divided digit by
-- digit. The quotient of two doubles can be rounded up to the next whole number: then the rest is negative, and is
-- corrected.

-- scale returns a * b / c rounded down, and the rest, for a * b < 2^53 or 0 <= a <= c < 2^45 and 0 <= b < 2^49.
local function scale(a, b, c)
	local product = a * b
	if product < 9007199254740992 then
		local quotient = math.floor(product / c)
		local rest = product - quotient * c
		if rest < 0 then
			return quotient - 1, rest + c
		end
		return quotient, rest
	end
	local digits = {}
	while b > 0 do
		local digit = b % 128
		digits[#digits + 1] = digit
		b = (b - digit) / 128
	end
	local quotient, rest = 0, 0
	for i = #digits, 1, -1 do
		local part = rest * 128 + a * digits[i]
		local more = math.floor(part / c)
		rest = part - more * c
		if rest < 0 then
			more, rest = more - 1, rest + c
		end
		quotient = quotient * 128 + more
	end
	return quotient, rest
end
