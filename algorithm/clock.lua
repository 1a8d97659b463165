-- now is the time, server is whether it is the server's, and slack is how many milliseconds longer than necessary keys
-- live. Tests pass a time, in the argument after those of the keys; they get a long slack because they may be slow. A
-- state from a time after the server's was written by another server, whose clock was ahead. Steps move it back to the
-- present with all that was consumed. A step that may write does so at once: otherwise time would never pass for a
-- client that is denied.
local now, server, slack = tonumber(ARGV[#KEYS + 2]), false, 3600000
if not now then
	local time = redis.call('TIME')
	now, server, slack = time[1] * 1000000 + time[2], true, 1000
end
