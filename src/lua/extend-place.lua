-- EXTEND of a shared or slot holder: pushes the expiry of our own place on, and touches nothing else.
-- Names one key only, as extend.lua does. A place that has run out but that nobody has cleared away
-- is still ours: whoever wants a place clears away first.
--
-- KEYS  1 the holders
-- ARGV  1 our value   2 expiry in ms
-- Reply {"OK"} | {"GONE"}
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return {'GONE'}
end
local time = redis.call('TIME')
local ttl = tonumber(ARGV[2])
local expiry = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) + ttl
-- PEXPIRE first: it passes where memory is full, and after it so does ZADD.
local left = math.max(redis.call('PTTL', KEYS[1]), ttl + 1000)
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
redis.call('ZADD', KEYS[1], 'XX', string.format('%.0f', expiry), ARGV[1])
return {'OK'}
