-- STATUS: all there is to know of a lock, without changing anything.
--
-- KEYS  1 the lock  2 its state  3 the queue  4 the holders
-- ARGV  1 ms since the epoch by the client's clock   2 how many holders and waiters to list at most
-- Reply {server time in ms, {value, ms left, ...}, {ticket, ...}, how many wait, {field, value, ...}}
local lock, state, queue, holders = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now = tonumber(ARGV[1])
local most = tonumber(ARGV[2]) - 1
local time = redis.pcall('TIME')
if not time['err'] then
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- include value
local held = {}
if value then
  held = {value, redis.call('PTTL', lock)}
end
local places = redis.call('ZRANGEBYSCORE', holders, string.format('%.0f', now), '+inf', 'WITHSCORES',
                          'LIMIT', 0, ARGV[2])
for i = 1, #places, 2 do
  held[#held + 1] = places[i]
  held[#held + 1] = math.floor(tonumber(places[i + 1]) - now)
end
return {string.format('%.0f', now), held, redis.call('ZRANGE', queue, 0, most), redis.call('ZCARD', queue),
        redis.call('HGETALL', state)}
