-- CANCEL: leaves the line, and ends an attempt whose outcome is unknown. A tombstone keeps an ACQUIRE
-- or RESTORE of the same token that is still on its way from taking a lock that nobody would serve.
--
-- KEYS  1..5 as in lib/line.lua   6 the tombstone of this token
-- ARGV  1 the head of our value, "redislock1:TOKEN:"   2 our ticket   3 ms since the epoch by the
--       client's clock   4 how long the tombstone stands, in ms; 0: nothing is on its way
--       5 "skip": the wait was in vain and counts as a skipped run
-- Reply {"OK"}
-- include keep
-- include line
local head = ARGV[1]
local now = to_ms(server_time(), tonumber(ARGV[3]))

if tonumber(ARGV[4]) > 0 then
  redis.pcall('SET', KEYS[6], '1', 'PX', ARGV[4]) -- pcall: a full memory must not keep the rest
end
local value = redis.pcall('GET', lock)
if type(value) == 'string' and string.sub(value, 1, #head) == head then
  redis.call('DEL', lock)
end
for _, holder in ipairs(redis.call('ZRANGE', holders, 0, -1)) do
  if string.sub(holder, 1, #head) == head then
    redis.call('ZREM', holders, holder)
  end
end
local _, ear, token = parts(ARGV[2])
leave(ARGV[2], ear, token)
if ARGV[5] == 'skip' then
  redis.pcall('HINCRBY', state, 'skips', 1)
  redis.pcall('PEXPIRE', state, KEEP)
end
if redis.call('EXISTS', queue) == 1 then
  pcall(serve, nil, now) -- as in release.lua
end
return {'OK'}
