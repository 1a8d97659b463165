-- Stores a state, and deletes some expired ones.
-- KEYS: states, their index, when they expire
-- ARGV: name, expires, body, how many to delete at most
local time = redis.call('TIME')
local now = time[1] .. string.format('%06d', tonumber(time[2]))
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, ARGV[4])) do
  redis.call('HDEL', KEYS[1], name)
  redis.call('ZREM', KEYS[2], name)
  redis.call('ZREM', KEYS[3], name)
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. '\0' .. ARGV[3])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
redis.call('ZADD', KEYS[3], ARGV[2], ARGV[1])
return 1
