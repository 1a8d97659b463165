-- A node refreshes its entry in the list of nodes, or leaves it.
--
-- KEYS[1] a sorted set: node → when it was last refreshed, in ms by this server's clock
-- ARGV    the node; how long a node counts as live, and as known, in ms; the most nodes to remember; 1 if the node leaves
--
-- Returns the number of live nodes, the number of known nodes, and 1 if the node was in the set before this call.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local node, live, known, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local listed = redis.call('ZSCORE', KEYS[1], node) and 1 or 0
if ARGV[5] == '1' then
	redis.call('ZREM', KEYS[1], node)
else
	redis.call('ZADD', KEYS[1], now, node)
end
-- Times in the future come from another server whose clock was ahead. They are set to now.
for _, ahead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')) do
	redis.call('ZADD', KEYS[1], now, ahead)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - known)
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -most - 1)
redis.call('PEXPIRE', KEYS[1], known)
return { redis.call('ZCOUNT', KEYS[1], now - live, '+inf'), redis.call('ZCARD', KEYS[1]), listed }
