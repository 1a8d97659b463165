-- One step on one key. ARGV: the time in microseconds or '' for the server's, what to do, n, capacity, a, b, c.
-- The answer is one string: the time, whether it is allowed, and the state as it was found.
local now, server, slack = clock(ARGV[1])
local allowed, found, write, w1, w2, w3, w4 = step(ARGV[2], KEYS[1], now, server, slack,
	tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]))
if allowed == nil then
	return garbage(found)
end
if write and ARGV[2] ~= 'look' then
	write(KEYS[1], w1, w2, w3, w4)
end
return struct.pack('>I7B', now, allowed and 1 or 0) .. found
