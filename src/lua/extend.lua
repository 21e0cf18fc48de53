-- EXTEND: pushes the expiry of our own value on, and touches nothing else. Names one key only: while
-- a cluster slot moves, a script with several keys of which some have moved is refused.
--
-- KEYS  1 the lock
-- ARGV  1 our value   2 expiry in ms
-- Reply {"OK"} | {"GONE"} | {"TAKEN", value}
local value = redis.call('GET', KEYS[1])
if value == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {'OK'}
end
if not value then
  return {'GONE'}
end
return {'TAKEN', value}
