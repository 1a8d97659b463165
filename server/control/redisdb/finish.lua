-- Replaces the database with the restored one, if the database was not changed meanwhile.
-- KEYS: progress, the existing keys, then pairs of a staged key and its final name
-- ARGV: channel, the required revision of the database, the number of existing keys
local last = tonumber(redis.call('HGET', KEYS[1], 'last\0') or 0)
if last ~= tonumber(ARGV[2]) then return last end
local first = 2 + tonumber(ARGV[3])
for i = 2, first - 1 do redis.call('UNLINK', KEYS[i]) end
for i = first, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 1 then redis.call('RENAME', KEYS[i], KEYS[i + 1]) end
end
redis.call('PUBLISH', ARGV[1], '')
return last
