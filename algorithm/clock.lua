-- clock returns the time, whether it is the server's, and by how many milliseconds keys are kept longer than they must.
-- Only the server's time moves with the server: a state that is ahead of it comes from another one, whose clock was
-- ahead, and is brought back to the present with all that was consumed; a step that may write does so at once, or a
-- client that is denied would never see time pass. A time that was given is a test's, and tests may dawdle.
local function clock(given)
	if given ~= '' then
		return tonumber(given), false, 3600000
	end
	local time = redis.call('TIME')
	return time[1] * 1000000 + time[2], true, 1000
end

local function garbage(key)
	return redis.error_reply('HEADGATE the value of ' .. key .. ' is not a counter: something else writes to this key')
end
