-- Deletes a change, unless it is the latest of an object.
-- KEYS: progress, objects, changes, ops, log of all, log of the namespace, history, touched by kind (five)
-- ARGV: namespace, the revision, the same as 16 digits, the number of its objects, then the kinds
local namespace, revision, count = ARGV[1], ARGV[2], tonumber(ARGV[4])
local kinds = {}
for i = 5, #ARGV do kinds[ARGV[i]] = KEYS[3 + i] end
local parts = {}
for place = 0, count - 1 do
  local op = redis.call('HGET', KEYS[4], revision .. '\0' .. place)
  if not op then return 0 end
  local split = string.find(op, '\0', 1, true)
  local kind, id = string.sub(op, 1, split - 1), string.sub(op, split + 1, string.find(op, '\0', split + 1, true) - 1)
  local object = redis.call('HGET', KEYS[2], kind .. '\0' .. namespace .. '\0' .. id)
  if object and string.sub(object, 1, #revision + 1) == revision .. '\0' then return 0 end
  parts[#parts + 1] = {kind, id, object}
end
for place, part in ipairs(parts) do
  local name = part[1] .. '\0' .. namespace .. '\0' .. part[2]
  redis.call('ZREM', KEYS[7], name .. '\0' .. ARGV[3] .. '\0' .. (place - 1))
  redis.call('HDEL', KEYS[4], revision .. '\0' .. (place - 1))
  if not part[3] and redis.call('ZSCORE', kinds[part[1]], part[2]) == revision then
    redis.call('ZREM', kinds[part[1]], part[2])
  end
end
redis.call('HDEL', KEYS[3], revision)
redis.call('ZREM', KEYS[5], revision)
redis.call('ZREM', KEYS[6], revision)
local pruned = tonumber(redis.call('HGET', KEYS[1], 'pruned\0' .. namespace) or 0)
if tonumber(revision) > pruned then redis.call('HSET', KEYS[1], 'pruned\0' .. namespace, revision) end
return 1
