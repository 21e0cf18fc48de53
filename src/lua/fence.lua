-- FENCE: raises the fence of a lock that was just acquired on a majority, so that a later holder on
-- any majority reads a larger one. Any two majorities share a server.
--
-- KEYS  1 the lock  2 its state  3 the holders
-- ARGV  1 our value   2 our value with the raised fence   3 the raised fence   4 expiry in ms
-- Reply {"OK"} | {"GONE"}
local last = tonumber(redis.call('HGET', KEYS[2], 'fence') or '0') or 0
local raised = string.format('%.0f', math.max(last, tonumber(ARGV[3])))
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('HSET', KEYS[2], 'fence', raised)
  redis.call('SET', KEYS[1], ARGV[2], 'XX', 'PX', ARGV[4])
  return {'OK'}
end
local expiry = redis.call('ZSCORE', KEYS[3], ARGV[1])
if expiry then
  redis.call('HSET', KEYS[2], 'fence', raised)
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('ZADD', KEYS[3], expiry, ARGV[2])
  return {'OK'}
end
return {'GONE'}
