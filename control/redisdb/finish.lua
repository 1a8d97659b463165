-- Puts what was restored in place of what there is, if that is still what it was.
-- KEYS: progress, the keys that there may be, then what was restored and where it belongs, in pairs
-- ARGV: channel, the revision that the database has to be at, how many keys there may be
local last = tonumber(redis.call('HGET', KEYS[1], 'last\0') or 0)
if last ~= tonumber(ARGV[2]) then return last end
local first = 2 + tonumber(ARGV[3])
for i = 2, first - 1 do redis.call('UNLINK', KEYS[i]) end
for i = first, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 1 then redis.call('RENAME', KEYS[i], KEYS[i + 1]) end
end
redis.call('PUBLISH', ARGV[1], '')
return last
