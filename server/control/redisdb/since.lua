-- Returns the current state of the objects that were changed after a revision.
-- KEYS: progress, objects, touched by each kind that nodes get
-- ARGV: namespace, the revision, the most objects, then the kinds
local namespace, after, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local known = redis.call('HMGET', KEYS[1], 'last\0' .. namespace, 'nodes\0' .. namespace, 'pruned\0' .. namespace)
if after > tonumber(known[1] or 0) or after < tonumber(known[3] or 0) then return {'pruned'} end
local found = {}
for i = 3, #KEYS do
  local touched = redis.call('ZRANGEBYSCORE', KEYS[i], '(' .. ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', 0, most + 1)
  for j = 1, #touched, 2 do
    if #found / 4 == most then return {'many'} end
    found[#found + 1] = ARGV[i + 1]
    found[#found + 1] = touched[j]
    found[#found + 1] = touched[j + 1]
    found[#found + 1] = redis.call('HGET', KEYS[2], ARGV[i + 1] .. '\0' .. namespace .. '\0' .. touched[j]) or ''
  end
end
return {'done', known[2] or '0', found}
