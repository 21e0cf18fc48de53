-- ACQUIRE: takes the lock if nobody has it, in one step. Idempotent by token: sent again after a
-- lost reply it finds its own value and only refreshes it, under the same fence.
--
-- KEYS  1 the lock  2 its state  3 the tombstone of this token
-- ARGV  1 the head of our value, "redislock1:TOKEN:"   2 its tail, "TTL:HOST:..."
--       3 expiry in ms   4 milliseconds since the epoch by the client's clock
--       5 how long the state is kept, in ms   6 "skip": a refusal counts as a skipped run
-- Reply {"OK", value} | {"HELD", value, ms left, server time in ms} | {"CANCELLED"}
local lock, state, tombstone = KEYS[1], KEYS[2], KEYS[3]
local head, tail, ttl = ARGV[1], ARGV[2], ARGV[3]

if redis.call('EXISTS', tombstone) == 1 then
  return {'CANCELLED'}
end

local value = redis.pcall('GET', lock)
if type(value) == 'table' then
  return redis.error_reply('NOTALOCK the key holds a ' .. redis.call('TYPE', lock)['ok'])
end
if value and string.sub(value, 1, #head) == head then
  redis.call('PEXPIRE', lock, ttl)
  return {'OK', value}
end

-- The server's clock, or the client's where an ACL forbids TIME: a floor for fences, never an order.
local now = tonumber(ARGV[4])
local time = redis.pcall('TIME')
if not time['err'] then
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

if value then
  if ARGV[6] == 'skip' then
    -- A full memory may refuse the count; but a read-only replica must not answer at all.
    local counted = redis.pcall('HINCRBY', state, 'skips', 1)
    if type(counted) == 'table' and string.find(counted['err'], 'READONLY', 1, true) then
      return counted
    end
    redis.pcall('PEXPIRE', state, ARGV[5])
  end
  return {'HELD', value, redis.call('PTTL', lock), string.format('%.0f', now)}
end

-- The fence is stored before the lock: a script does not roll back, and a fence too many harms nobody.
local last = tonumber(redis.call('HGET', state, 'fence') or '0') or 0
local fence = string.format('%.0f', math.max(last + 1, now))
redis.call('HSET', state, 'fence', fence)
redis.call('PEXPIRE', state, ARGV[5])
value = head .. fence .. ':held:' .. string.format('%.0f', now) .. ':' .. tail
redis.call('SET', lock, value, 'NX', 'PX', ttl)
return {'OK', value}
