-- A node writes its notes, one per key, and reads the notes of its peers that are new to it.
--
-- KEYS[1]  a hash for all keys of this group: e (an epoch, created when there is none), v (a version, which every call
--          increments) and m (the fingerprint of the fleet that wrote first)
-- KEYS[2…] a hash per key: author → version and time of the note, and its text
-- ARGV[1]  the calling node; ARGV[2] the fingerprint of its fleet; ARGV[3] the epoch to create if there is none;
--          ARGV[4] the epoch that the node knows
-- ARGV[5…] for each key: the version up to which the node has read, how long to keep the key in ms, and the node's note,
--          if any
--
-- The returned epoch ends with the server's replication id, which changes when a server restarts or a replica becomes
-- primary. Such a server may lack the latest notes although its version has caught up.
--
-- Returns the epoch, the version, 1 if another fleet wrote first, and for each note: the number of its key, its author,
-- its age in ms and its text.

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

local author, fingerprint = ARGV[1], ARGV[2]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- Without permission for INFO, only epoch and version show that notes were lost.
local server = redis.pcall('INFO', 'replication')
server = type(server) == 'string' and string.match(server, 'master_replid:(%x+)') or ''

local group = redis.call('HMGET', KEYS[1], 'e', 'm')
local epoch, first = group[1], group[2]
if not epoch or not first then
	epoch, first = ARGV[3], fingerprint
	redis.call('HSET', KEYS[1], 'e', epoch, 'm', fingerprint)
end
epoch = epoch .. server
local version = redis.call('HINCRBY', KEYS[1], 'v', 1)
local reply = { epoch, version, first == fingerprint and 0 or 1 }

local function add_note(k, by, age, text)
	reply[#reply + 1] = k - 1
	reply[#reply + 1] = by
	reply[#reply + 1] = age
	reply[#reply + 1] = text
end

local longest = 0
local head = bytes(version, NUMBER) .. bytes(now, NUMBER)
for k = 2, #KEYS do
	local arg = ARGV[k + 3]
	local since, keep = number(arg, 1, NUMBER), number(arg, 1 + NUMBER, NUMBER)
	if ARGV[4] ~= epoch or since >= version then
		since = 0 -- notes were lost
	end
	longest = math.max(longest, keep)
	local notes = redis.call('HGETALL', KEYS[k])
	for i = 1, #notes, 2 do
		local by, note = notes[i], notes[i + 1]
		if by ~= author then
			local age = #note >= HEAD and now - number(note, 1 + NUMBER, NUMBER)
			if not age then -- no node wrote this; it is returned once, as an empty note
				redis.call('HDEL', KEYS[k], by)
				add_note(k, by, 0, '')
			elseif age > keep then
				redis.call('HDEL', KEYS[k], by)
			elseif number(note, 1, NUMBER) > since then
				add_note(k, by, math.max(0, age), string.sub(note, HEAD + 1))
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
return reply
