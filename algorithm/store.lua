-- For how long what is kept under a key is kept.

-- DEBT is how many capacities a charge may go beyond the limit.
local DEBT = 10

-- NEVER is later than any time. What somebody else wrote, if it is text, reads as later still.
local NEVER = 9007199254740992

-- lifeOf returns for how many milliseconds a key is kept that is as good as none after so many microseconds. Expiry is
-- not what decides, so it comes late, by the slack; a debt of another limit may last longer than Redis can say.
local function lifeOf(micros, slack)
	if micros < 0 then
		micros = 0
	elseif micros > NEVER then
		micros = NEVER
	end
	return math.ceil(micros / 1000) + slack
end

-- outlive sees that a key that was denied is kept for as long as that lasts: the limit under which it was written may have
-- been one of a shorter memory.
local function outlive(key, micros, slack)
	local life = lifeOf(micros, slack)
	if redis.call('PTTL', key) < life - slack then
		redis.call('PEXPIRE', key, life)
	end
end
