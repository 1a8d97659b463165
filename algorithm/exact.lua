-- Whole numbers below 2^53 are exact in Lua. A product of a count and a time need not be below, so it is divided digit
-- by digit.

-- divide returns a / b rounded down, and the rest, for 0 <= a < 2^53 and b >= 1. The quotient of two doubles can round up
-- to a whole number that it does not reach.
local function divide(a, b)
	local quotient = math.floor(a / b)
	local rest = a - quotient * b
	if rest < 0 then
		return quotient - 1, rest + b
	end
	return quotient, rest
end

-- scale returns a * b / c rounded down, and the rest, for 0 <= a <= c < 2^45 and 0 <= b < 2^49.
local function scale(a, b, c)
	local product = a * b
	if product < 9007199254740992 then
		return divide(product, c)
	end
	local digits = {}
	while b > 0 do
		local digit = b % 128
		digits[#digits + 1] = digit
		b = (b - digit) / 128
	end
	local quotient, rest, more = 0, 0, 0
	for i = #digits, 1, -1 do
		more, rest = divide(rest * 128 + a * digits[i], c)
		quotient = quotient * 128 + more
	end
	return quotient, rest
end
