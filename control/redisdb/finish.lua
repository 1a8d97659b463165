-- Puts what was restored in place, if the database is still empty.
-- KEYS: progress, then what was restored and where it belongs, in pairs
-- ARGV: channel
local last = tonumber(redis.call('HGET', KEYS[1], 'last\0') or 0)
if last ~= 0 then return last end
for i = 2, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 1 then redis.call('RENAME', KEYS[i], KEYS[i + 1]) end
end
redis.call('PUBLISH', ARGV[1], '')
return 0
