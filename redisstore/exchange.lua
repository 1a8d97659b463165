-- Nodes write notes for each other, one per key, and read the notes of others that are new to them.
--
-- KEYS[1]  the state shared by all keys of this tag: a hash of e (an epoch, created again when all data is lost), v (a
--          version, which every call raises) and m (the mark of the first node)
-- KEYS[2…] a hash per key: author → version and time of the note, and the note
-- ARGV[1]  the calling node; ARGV[2] its mark; ARGV[3] an epoch in case there is none; ARGV[4] the epoch that it knows
-- ARGV[5…] for each key: the version up to which the node knows it, how long it is kept in ms, and the node's note, if any
--
-- An epoch that is returned, or that a caller knows, ends with the server's replication id. A restarted server, and a
-- replica that becomes primary, has a new one: it may lack the latest notes, and its versions may have caught up since.
--
-- Returns the epoch, the version, 1 if another node has left its mark, and for each note: the number of its key, its
-- author, its age in ms and the note.

local function number(text, from, size)
	local n = 0
	for i = from, from + size - 1 do
		n = n * 256 + string.byte(text, i)
	end
	return n
end

local function bytes(n, size)
	local list = {}
	for i = size, 1, -1 do
		list[i] = n % 256
		n = (n - list[i]) / 256
	end
	return string.char(unpack(list))
end

local NUMBER = 6
local HEAD = 2 * NUMBER

local author, mark = ARGV[1], ARGV[2]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local server = redis.pcall('INFO', 'replication') -- who may not ask for that goes by epoch and version alone
server = type(server) == 'string' and string.match(server, 'master_replid:(%x+)') or ''

local meta = redis.call('HMGET', KEYS[1], 'e', 'm')
local epoch, first = meta[1], meta[2]
if #KEYS == 1 then
	return { epoch and epoch .. server or '', 0, first and first ~= mark and 1 or 0 } -- the node only asks whether there are others
end
if not epoch or not first then
	epoch, first = ARGV[3], mark
	redis.call('HSET', KEYS[1], 'e', epoch, 'm', mark)
end
epoch = epoch .. server
local version = redis.call('HINCRBY', KEYS[1], 'v', 1)
local answer = { epoch, version, first == mark and 0 or 1 }

local longest = 0
local head = bytes(version, NUMBER) .. bytes(now, NUMBER)
for k = 2, #KEYS do
	local arg = ARGV[k + 3]
	local since, keep = number(arg, 1, NUMBER), number(arg, 1 + NUMBER, NUMBER)
	if ARGV[4] ~= epoch or since >= version then
		since = 0 -- all was lost, or the last of it
	end
	longest = math.max(longest, keep)
	local notes = redis.call('HGETALL', KEYS[k])
	for i = 1, #notes, 2 do
		local by, note = notes[i], notes[i + 1]
		if by ~= author then
			local age = #note >= HEAD and now - number(note, 1 + NUMBER, NUMBER)
			if not age then -- none of ours has left it: it is told once, as an empty one, and all others are heard
				redis.call('HDEL', KEYS[k], by)
				answer[#answer + 1] = k - 1
				answer[#answer + 1] = by
				answer[#answer + 1] = 0
				answer[#answer + 1] = ''
			elseif age > keep then
				redis.call('HDEL', KEYS[k], by)
			elseif number(note, 1, NUMBER) > since then
				answer[#answer + 1] = k - 1
				answer[#answer + 1] = by
				answer[#answer + 1] = math.max(0, age)
				answer[#answer + 1] = string.sub(note, HEAD + 1)
			end
		end
	end
	if #arg > HEAD then
		redis.call('HSET', KEYS[k], author, head .. string.sub(arg, HEAD + 1))
		redis.call('PEXPIRE', KEYS[k], keep)
	end
end
if redis.call('PTTL', KEYS[1]) < longest then
	redis.call('PEXPIRE', KEYS[1], longest)
end
return answer
