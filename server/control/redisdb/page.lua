-- Reads some objects in the order of their names.
-- KEYS: index, objects, progress
-- ARGV: from, to (for ZRANGEBYLEX), how many to read, how many to return, a field of progress to return, the text to find
--       in ids (in lower case, or empty) and in bodies, and field names to ignore there
-- Returns the value of that field, the last name read (empty if there are no more), how many were found, and names and objects.
local names = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
local most, needle, written = tonumber(ARGV[4]), ARGV[6], ARGV[7]
local found, count, last = {}, 0, ''

-- without returns a text without all occurrences of a part.
local function without(text, part)
  local kept, at = {}, 1
  local from, to = string.find(text, part, 1, true)
  if not from then return text end
  while from do
    kept[#kept + 1] = string.sub(text, at, from - 1)
    at = to + 1
    from, to = string.find(text, part, at, true)
  end
  kept[#kept + 1] = string.sub(text, at)
  return table.concat(kept)
end

for i, name in ipairs(names) do
  local object = redis.call('HGET', KEYS[2], name)
  local hit = needle == ''
  if not hit then
    local id = string.sub(name, string.find(name, '\0', string.find(name, '\0', 1, true) + 1, true) + 1)
    local at = 1
    for _ = 1, 4 do at = string.find(object, '\0', at, true) + 1 end
    hit = string.find(string.lower(id), needle, 1, true)
    if not hit then
      local body = string.sub(object, at)
      for n = 8, #ARGV do body = without(body, ARGV[n]) end
      hit = string.find(string.lower(body), written, 1, true)
    end
  end
  if hit then
    count = count + 1
    if most > 0 then
      found[#found + 1] = name
      found[#found + 1] = object
    end
    if count == most then
      last = name
      break
    end
  end
  if i == tonumber(ARGV[3]) then last = name end
end
return {redis.call('HGET', KEYS[3], ARGV[5]) or '0', last, count, found}
