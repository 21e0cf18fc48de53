-- CHECK: whether a value, or the holder with a fence, still holds the lock. Changes nothing.
--
-- KEYS  1 the lock  2 the holders
-- ARGV  1 the value, or ""   2 the fence, where 1 is ""   3 ms since the epoch by the client's clock
-- Reply {"OK", value, ms left} | {"GONE"} | {"TAKEN", value, ms left}
local function is_wanted(value)
  if ARGV[1] ~= '' then
    return value == ARGV[1]
  end
  return string.match(value, '^redislock1:%x+:(%d+):') == ARGV[2]
end

local now = tonumber(ARGV[3])
local time = redis.pcall('TIME')
if not time['err'] then
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local value = redis.call('GET', KEYS[1])
if value and is_wanted(value) then
  return {'OK', value, redis.call('PTTL', KEYS[1])}
end
local places = redis.call('ZRANGEBYSCORE', KEYS[2], string.format('%.0f', now), '+inf', 'WITHSCORES')
for i = 1, #places, 2 do
  if is_wanted(places[i]) then
    return {'OK', places[i], math.floor(tonumber(places[i + 1]) - now)}
  end
end
if value then
  return {'TAKEN', value, redis.call('PTTL', KEYS[1])}
end
return {'GONE'}
