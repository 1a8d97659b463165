-- Nodes say that they are there.
--
-- KEYS[1] a sorted set of nodes by when they were last heard of, in ms by this server's clock
-- ARGV    the node; for how long one counts as live, and as known, in ms; how many are remembered; 1 if the node leaves
--
-- Returns how many are live, how many are known, and 1 if the node was in the set before this call.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local node, live, known, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local listed = redis.call('ZSCORE', KEYS[1], node) and 1 or 0
if ARGV[5] == '1' then
	redis.call('ZREM', KEYS[1], node)
else
	redis.call('ZADD', KEYS[1], now, node)
end
-- Those from the future were heard of by a server whose clock was ahead; they count from now on.
for _, ahead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')) do
	redis.call('ZADD', KEYS[1], now, ahead)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - known)
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -most - 1)
redis.call('PEXPIRE', KEYS[1], known)
return { redis.call('ZCOUNT', KEYS[1], now - live, '+inf'), redis.call('ZCARD', KEYS[1]), listed }
