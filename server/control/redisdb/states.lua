-- Reads states that have not expired, in the order of their names.
-- KEYS: states, their index
-- ARGV: from, to (for ZRANGEBYLEX), the most to read, the most to return
-- Returns the last name read (empty if there are no more), and names and states.
local time = redis.call('TIME')
local now = tonumber(time[1] .. string.format('%06d', tonumber(time[2])))
local names = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
local found, last = {}, ''
for i, name in ipairs(names) do
  local state = redis.call('HGET', KEYS[1], name)
  if tonumber(string.sub(state, 1, string.find(state, '\0', 1, true) - 1)) > now then
    found[#found + 1] = name
    found[#found + 1] = state
    if #found / 2 == tonumber(ARGV[4]) then break end
  end
  if i == tonumber(ARGV[3]) then last = name end
end
return {last, found}
