-- RELEASE: gives up our own place, or leaves a residue for the rest of a minimum hold; records the
-- run; and hands what is free to the first of the line. Another holder's value is never touched.
--
-- KEYS  1..5 as in lib/line.lua
-- ARGV  1 our value   2 mode: x, s or N   3 ms left of the minimum hold, 0 without
--       4 the residue's value   5 ms since the epoch by the client's clock
--       6 host  7 start, ms since the epoch  8 duration in ms  9 exit status   ("" for 6: no record)
--       10 "again": an earlier try may have done it already, and recorded the run
-- Reply {"OK"} | {"GONE"} | {"TAKEN", value}
-- include line
local left = tonumber(ARGV[3])
local micros = server_time()
local now = micros and math.floor(micros / 1000) or tonumber(ARGV[5])
local verdict = {'OK'}

if ARGV[2] == 'x' then
  local value = redis.call('GET', lock)
  if value ~= ARGV[1] then
    verdict = value and {'TAKEN', value} or {'GONE'}
  elseif left > 0 then
    -- PEXPIRE first: it passes where memory is full, and then only the old value stands there longer.
    redis.call('PEXPIRE', lock, ARGV[3])
    redis.pcall('SET', lock, ARGV[4], 'XX', 'KEEPTTL')
  else
    redis.call('DEL', lock)
  end
elseif redis.call('ZREM', holders, ARGV[1]) == 0 then
  verdict = {'GONE'}
elseif left > 0 then
  redis.pcall('ZADD', holders, digits(now + left), ARGV[4])
  keep(holders, left + 1000)
end

if ARGV[6] ~= '' and (verdict[1] == 'OK' or ARGV[10] ~= 'again') then
  -- pcall: a full memory may refuse the record, but not undo the release.
  redis.pcall('HSET', state, 'last_host', ARGV[6], 'last_start', ARGV[7], 'last_ms', ARGV[8],
              'last_status', ARGV[9])
  redis.pcall('HINCRBY', state, 'runs', 1)
  if verdict[1] ~= 'OK' then
    redis.pcall('HINCRBY', state, 'losses', 1)
  end
  redis.pcall('PEXPIRE', state, KEEP)
end

if redis.call('EXISTS', queue) == 1 then
  if redis.call('EXISTS', holders) == 1 then
    redis.call('ZREMRANGEBYSCORE', holders, '-inf', digits(now))
  end
  -- pcall: a full memory may refuse the grant; the waiters then look by their own clocks.
  local _, first = pcall(serve, nil, now)
  if left > 0 and type(first) == 'string' and string.find(first, ':', 1, true) then
    call_waiter(first, 'watch ' .. ARGV[3])
  end
end
return verdict
