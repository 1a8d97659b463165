-- How long keys live in Redis.

-- DEBT is how many capacities a charge may exceed the limit by.
local DEBT = 10

-- NEVER is later than any time. Text written by another program reads as a time later still.
local NEVER = 9007199254740992

-- lifeOf returns the time to live, in milliseconds, of a key whose state no longer matters after so many microseconds.
-- No decision depends on expiry, so keys live longer by slack. A debt converted from another limit is cut to the
-- longest time that Redis takes.
local function lifeOf(micros, slack)
	if micros < 0 then
		micros = 0
	elseif micros > NEVER then
		micros = NEVER
	end
	return math.ceil(micros / 1000) + slack
end

-- outlive makes a denied key live at least until it is allowed: it may have been written under a limit with a shorter
-- period.
local function outlive(key, micros, slack)
	local life = lifeOf(micros, slack)
	if redis.call('PTTL', key) < life - slack then
		redis.call('PEXPIRE', key, life)
	end
end
