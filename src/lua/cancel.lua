-- CANCEL: ends an attempt whose outcome is unknown. A tombstone keeps an ACQUIRE or RESTORE of the
-- same token that is still on its way from taking a lock that nobody would serve.
--
-- KEYS  1 the lock  2 the tombstone of this token
-- ARGV  1 the head of our value, "redislock1:TOKEN:"   2 how long the tombstone stands, in ms
-- Reply {"OK"}
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'string' and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
return {'OK'}
