-- RELEASE: gives up our own place, or leaves a residue for the rest of a minimum hold; records the
-- run; and hands what is free to the first of the line. Another holder's value is never touched.
--
-- KEYS  1..5 as in lib/line.lua
-- ARGV  1 our value   2 mode: x, s or N   3 host   4 start, ms since the epoch by the client's clock
--       5 duration in ms   6 exit status   ("" for 3: no record, and the client's clock is 4 + 5)
--       7 "again": no record unless the place was ours (an earlier try may have recorded it)
--       8 the minimum hold in ms since the start that the value tells   9 the residue's value
--       7 to 9 are there only where one of them has something to say
-- Reply {"OK"} | {"GONE"} | {"TAKEN", value}
-- include keep

local function record(verdict)
  if ARGV[3] ~= '' and (verdict[1] == 'OK' or ARGV[7] ~= 'again') then
    -- pcall: a full memory may refuse the record, but not undo the release.
    local made = redis.pcall('HSET', KEYS[2], 'last_host', ARGV[3], 'last_start', ARGV[4], 'last_ms', ARGV[5],
                             'last_status', ARGV[6])
    redis.pcall('HINCRBY', KEYS[2], 'runs', '1')
    if verdict[1] ~= 'OK' then
      redis.pcall('HINCRBY', KEYS[2], 'losses', '1')
    end
    if made ~= 0 or tonumber(ARGV[5]) >= DAY then
      redis.pcall('PEXPIRE', KEYS[2], KEEP)
    end
  end
  return verdict
end

-- What a look at the lock says to an exclusive holder.
local function judge(value)
  if value == ARGV[1] then
    return {'OK'}
  end
  return value and {'TAKEN', value} or {'GONE'}
end

-- The way of most runs, without what the line needs: nobody waits, and nothing stays behind.
local waiters = redis.call('EXISTS', KEYS[3]) == 1
if ARGV[2] == 'x' and not ARGV[8] and not waiters then
  local verdict = judge(redis.call('GET', KEYS[1]))
  if verdict[1] == 'OK' then
    redis.call('DEL', KEYS[1])
  end
  return record(verdict)
end

-- include line
local hold, now, left = tonumber(ARGV[8] or '0'), 0, 0
if hold > 0 or waiters then
  now = to_ms(server_time(), tonumber(ARGV[4]) + tonumber(ARGV[5]))
  local started = tonumber(string.match(ARGV[1], '^[^:]*:[^:]*:[^:]*:[^:]*:(%d+):')) or now
  left = math.min(started + hold - now, hold)
end
local verdict = {'OK'}

if ARGV[2] == 'x' then
  verdict = judge(redis.call('GET', lock))
  if verdict[1] == 'OK' and left > 0 then
    -- PEXPIRE first: it passes where memory is full, and then only the old value stands there longer.
    redis.call('PEXPIRE', lock, digits(left))
    redis.pcall('SET', lock, ARGV[9], 'XX', 'KEEPTTL')
  elseif verdict[1] == 'OK' then
    redis.call('DEL', lock)
  end
elseif redis.call('ZREM', holders, ARGV[1]) == 0 then
  verdict = {'GONE'}
elseif left > 0 then
  redis.pcall('ZADD', holders, digits(now + left), ARGV[9])
  keep(holders, left + 1000)
end

record(verdict)

if waiters then
  -- pcall: a full memory may refuse the grant; the waiters then look by their own clocks.
  local served, first, ear, token = pcall(serve, nil, now)
  if left > 0 and served and first then
    call_waiter(ear, token, 'watch ' .. digits(left))
  end
end
return verdict
