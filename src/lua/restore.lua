-- RESTORE: puts a vanished value back, but only where nobody can have held the lock since: any later
-- holder would have left a larger fence. A lost state (flush, restart without data) has no fence.
--
-- KEYS  1 the lock  2 its state  3 the tombstone of this token
-- ARGV  1 our value   2 expiry in ms   3 our fence   4 how long the state is kept, in ms
-- Reply {"OK"} | {"GONE"} (somebody was there in between) | {"TAKEN", value}
local lock, state = KEYS[1], KEYS[2]
local value = redis.call('GET', lock)
if value == ARGV[1] then
  redis.call('PEXPIRE', lock, ARGV[2])
  return {'OK'}
end
if value then
  return {'TAKEN', value}
end
local last = tonumber(redis.call('HGET', state, 'fence') or '0') or 0
if last > tonumber(ARGV[3]) or redis.call('EXISTS', KEYS[3]) == 1 then
  return {'GONE'}
end
redis.call('HSET', state, 'fence', ARGV[3])
redis.call('PEXPIRE', state, ARGV[4])
redis.call('SET', lock, ARGV[1], 'NX', 'PX', ARGV[2])
return {'OK'}
