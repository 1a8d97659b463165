-- The twin of grant.go: takes units for a caller that hands them out, or gives them back, on each key for itself.
-- ARGV[1] is the op, 'grant' or 'give'. For each key there is an argument: need, capacity, a, b, want and share as
-- numbers of 7 bytes, and after them the argument of convert.lua; or that of take.lua for 'give'. The reply is one
-- string: the time and, for each key, whether it is allowed, as in take.lua; the length of its state and the state that
-- was found; and how many units were taken, in 7 bytes.
local function save(key, write, w1, w2, w3, w4, w5)
	if write == 'SET' then
		redis.call('SET', key, w1, 'PX', w2)
	elseif write then
		write(key, w1, w2, w3, w4, w5)
	end
end
local function foreign(key)
	error({ err = 'HEADGATE the value of ' .. key .. ' is not a counter: something else writes to this key' })
end
local ops = {}
function ops.give(key, asked)
	local n, capacity, a, b, c = struct.unpack('>I7I7I7I7I7', asked)
	local allowed, found, write, w1, w2, w3, w4, w5 = step('give', key, now, server, slack, n, capacity, a, b, c)
	if allowed == nil then
		foreign(key)
	elseif allowed == 'changed' then
		return 2, '', 0
	end
	save(key, write, w1, w2, w3, w4, w5)
	return 1, '', 0
end
function ops.grant(key, asked)
	local need, capacity, a, b, want, share = struct.unpack('>I7I7I7I7I7I7', asked)
	local fits, seen = step('look', key, now, server, slack, need, capacity, a, b)
	if fits == 'changed' then
		local other = convert(step, asked, 42, key, now, server, slack, capacity, a, b)
		if other then
			return 2, other, 0
		end
		fits, seen = step('look', key, now, server, slack, need, capacity, a, b)
	end
	local n = need
	if fits == true then
		-- There is room for far fewer than 2^53 units, so the quotient is not rounded up to the next whole number.
		n = math.min(math.max(math.floor(room(seen, now, capacity, a, b) / share), need), math.max(want, need))
	end
	local allowed, found, write, w1, w2, w3, w4, w5 = step('take', key, now, server, slack, n, capacity, a, b)
	if allowed == nil or allowed == 'changed' then
		foreign(key)
	end
	save(key, write, w1, w2, w3, w4, w5)
	return allowed and 1 or 0, found, n
end
local reply = { struct.pack('>I7', now) }
for i = 1, #KEYS do
	local ok, outcome, found, units = pcall(ops[ARGV[1]], KEYS[i], ARGV[i + 1])
	if not ok then
		if #KEYS == 1 then
			return type(outcome) == 'table' and outcome or redis.error_reply(outcome)
		end
		-- The other keys have their units. The caller asks for this one alone, to find out why.
		outcome, found, units = 3, '', 0
	end
	reply[#reply + 1] = struct.pack('>BI2', outcome, #found) .. found .. struct.pack('>I7', units)
end
return table.concat(reply)
