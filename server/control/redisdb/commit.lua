-- Applies a change completely or not at all: everything is checked before anything is written.
-- KEYS: progress, objects, index, changes, ops, log of all, log of the namespace, history, counts, touched by kind (five)
-- ARGV: namespace, base, actor, from, action, note, channel, then for each object: kind, its index in the touched keys, for
--       nodes (1 or 0), id, base, put (1) or delete (0), body
local progress, objects, index, changes, ops = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local all, log, history, counts = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local namespace, base, actor, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[7]
local first, width = 8, 7

local have = tonumber(redis.call('HGET', progress, 'last\0' .. namespace) or 0)
if base ~= -1 and base ~= have then return {'conflict', 0, have} end

-- An object is its revision, created, updated, by and body, separated by NUL, which none of them contains.
local was = {}
for at = first, #ARGV, width do
  local field = ARGV[at] .. '\0' .. namespace .. '\0' .. ARGV[at + 3]
  local object = redis.call('HGET', objects, field)
  local revision = 0
  if object then
    revision = tonumber(string.sub(object, 1, string.find(object, '\0', 1, true) - 1))
    was[at] = object
  end
  local wanted = tonumber(ARGV[at + 4])
  if wanted ~= -1 and wanted ~= revision or ARGV[at + 5] == '0' and revision == 0 then
    return {'conflict', (at - first) / width + 1, revision}
  end
end

local time = redis.call('TIME')
local now = time[1] .. string.format('%06d', tonumber(time[2]))
local number = tonumber(redis.call('HGET', progress, 'last\0') or 0) + 1
local revision = string.format('%.0f', number)
local padded = string.format('%016.0f', number)
local before, place, nodes, kinds = {}, 0, false, {}
for at = first, #ARGV, width do
  local kind, id, body = ARGV[at], ARGV[at + 3], ARGV[at + 6]
  local name = kind .. '\0' .. namespace .. '\0' .. id
  local old = was[at]
  before[#before + 1] = old or ''
  redis.call('HSET', ops, revision .. '\0' .. place, kind .. '\0' .. id .. '\0' .. ARGV[at + 5] .. '\0' .. body .. '\0' .. (old or ''))
  redis.call('ZADD', history, 0, name .. '\0' .. padded .. '\0' .. place)
  redis.call('ZADD', KEYS[9 + tonumber(ARGV[at + 1])], revision, id)
  if ARGV[at + 5] == '0' then
    redis.call('HDEL', objects, name)
    redis.call('ZREM', index, name)
    if redis.call('HINCRBY', counts, namespace, -1) == 0 then redis.call('HDEL', counts, namespace) end
  else
    local created = now
    if old then
      local from = string.find(old, '\0', 1, true) + 1
      created = string.sub(old, from, string.find(old, '\0', from, true) - 1)
    else
      redis.call('ZADD', index, 0, name)
      redis.call('HINCRBY', counts, namespace, 1)
    end
    redis.call('HSET', objects, name, revision .. '\0' .. created .. '\0' .. now .. '\0' .. actor .. '\0' .. body)
  end
  if ARGV[at + 2] == '1' then nodes = true end
  kinds[kind] = true
  place = place + 1
end

local touched = ''
for kind in pairs(kinds) do touched = touched .. ' ' .. kind .. ' ' end
redis.call('HSET', changes, revision, namespace .. '\0' .. now .. '\0' .. actor .. '\0' .. ARGV[4] .. '\0' .. ARGV[5] .. '\0' .. ARGV[6] .. '\0' .. place .. '\0' .. touched)
redis.call('ZADD', all, revision, revision)
redis.call('ZADD', log, revision, revision)
redis.call('HSET', progress, 'last\0', revision, 'last\0' .. namespace, revision)
if nodes then redis.call('HSET', progress, 'nodes\0', revision, 'nodes\0' .. namespace, revision) end
redis.call('PUBLISH', channel, revision)
return {'done', revision, now, before}
