-- The time, whether it is the server's, and by how many milliseconds keys are kept longer than they must. A time that
-- was given, behind what there is for each key, is a test's, and tests may dawdle.
-- Only the server's time moves with the server: a state that is ahead of it comes from another one, whose clock was
-- ahead, and is brought back to the present with all that was consumed; a step that may write does so at once, or a
-- client that is denied would never see time pass.
local now, server, slack = tonumber(ARGV[#KEYS + 2]), false, 3600000
if not now then
	local time = redis.call('TIME')
	now, server, slack = time[1] * 1000000 + time[2], true, 1000
end
