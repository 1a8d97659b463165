-- Returns the first change after a revision of each of some objects.
-- KEYS: history, ops
-- ARGV: the revision as 16 digits, then names of objects
-- Returns for each: the revision of that change and its op; empty if there was none.
local answer = {}
for i = 2, #ARGV do
  -- NUL ends the revision, and \1 comes after it.
  local found = redis.call('ZRANGEBYLEX', KEYS[1], '[' .. ARGV[i] .. '\0' .. ARGV[1] .. '\1', '(' .. ARGV[i] .. '\1', 'LIMIT', 0, 1)
  if #found == 0 then
    answer[#answer + 1] = ''
    answer[#answer + 1] = ''
  else
    local rest = string.sub(found[1], #ARGV[i] + 2)
    local revision = string.format('%.0f', tonumber(string.sub(rest, 1, 16)))
    answer[#answer + 1] = revision
    answer[#answer + 1] = redis.call('HGET', KEYS[2], revision .. '\0' .. string.sub(rest, 18)) or ''
  end
end
return answer
