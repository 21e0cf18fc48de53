-- UNLOCK: an operator removes exactly the holders that were shown, never a newer one. The fence is
-- raised, so that a removed holder cannot put its key back and stops at its next extension. A newer
-- holder is left alone in this too: under a raised fence it could not put a vanished key back.
--
-- KEYS  1..5 as in lib/line.lua
-- ARGV  1 ms since the epoch by the client's clock   2... the values to remove
-- Reply {"OK", how many were removed}
-- include keep
-- include line
local now = to_ms(server_time(), tonumber(ARGV[1]))
local removed = 0
local value = redis.call('GET', lock)
local is_shown = not value -- vanished meanwhile: its holder may be about to put it back
for i = 2, #ARGV do
  is_shown = is_shown or value == ARGV[i]
end
if is_shown then
  local last = tonumber(redis.call('HGET', state, 'fence') or '0') or 0
  redis.call('HSET', state, 'fence', digits(math.max(last + 1, now)))
  redis.call('PEXPIRE', state, KEEP)
end
for i = 2, #ARGV do
  if value == ARGV[i] then
    removed = removed + redis.call('DEL', lock)
  else
    removed = removed + redis.call('ZREM', holders, ARGV[i])
  end
end
if redis.call('EXISTS', queue) == 1 then
  pcall(serve, nil, now)
end
return {'OK', removed}
