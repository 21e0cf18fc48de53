-- ACQUIRE: takes the lock if it is free and nobody is ahead in line, in one step. Idempotent by
-- token: sent again after a lost reply, or to claim a grant, it finds its own value and refreshes it
-- under the same fence. Nobody barges: what is free goes to those in line first.
--
-- KEYS  1..5 as in lib/line.lua   6 the tombstone of this token
-- ARGV  1 the head of our value, "redislock1:TOKEN:"   2 its tail, "TTL:HOST:..."
--       3 expiry in ms   4 ms since the epoch by the client's clock   5 mode: x, s or N
--       6 "skip": a refusal counts as a skipped run   "try": it does not   "wait": get in line
--       7 to 12 are there only for one who waits, or tries again:
--       7 ear: l or p   8 the number of a ticket we had, or ""   9 ms that a polling waiter counts
--       10 "again": an earlier attempt may have been applied, or granted; or ""
--       11 the fence of a holder that we were told of, and 12 the ms that are left of its lease; or 0
-- Reply {"OK", value}
--     | {"HELD", a holder's value, ms left, server time in ms, how many hold, how many are ahead, ticket}
--     | {"SLOTS", the N in use} | {"CANCELLED"}

-- include keep

-- TIME's reply in ms, as digits: to write out a number costs a script more than a command does.
local function in_ms(time)
  return time[1] .. string.sub('00000' .. time[2], -6, -4)
end

-- The ways of most runs, without what the line needs: nobody waits, and this is no second attempt.
-- What is free is taken, if a RELEASE has worked under this name before (it counts the runs), so that
-- what an ACL allows need not be tried, and if it has been taken on this day.
local again = ARGV[10] == 'again'
local plain = ARGV[5] == 'x' and not again and (ARGV[11] or '0') == '0'
local there = plain and redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[4], KEYS[6])
if there == 0 then
  local known, time = redis.pcall('HMGET', KEYS[2], 'fence', 'runs'), redis.pcall('TIME')
  local last = known[2] and tonumber(known[1] or '')
  local start = not time['err'] and in_ms(time)
  if last and start and same_day(last, tonumber(start)) then
    local fence = last < tonumber(start) and start or string.format('%.0f', last + 1)
    local value = ARGV[1] .. fence .. ':held:' .. start .. ':' .. ARGV[2]
    redis.call('HSET', KEYS[2], 'fence', fence, 'slots', '1') -- first, as in put()
    redis.call('SET', KEYS[1], value, 'NX', 'PX', ARGV[3])
    return {'OK', value}
  end
end

-- A refusal counts as a skipped run. A full memory may refuse the count; but a read-only replica must
-- not answer at all: its error, else nil. The first of eight renews what keeps the state.
local function count_skip()
  local counted = redis.pcall('HINCRBY', KEYS[2], 'skips', '1')
  if type(counted) == 'table' and string.find(counted['err'], 'READONLY', 1, true) then
    return counted
  end
  if type(counted) == 'number' and counted % 8 == 1 then
    redis.pcall('PEXPIRE', KEYS[2], KEEP)
  end
end

-- Whether a value, if it is one at all, is of our token.
local function is_ours(value)
  return type(value) == 'string' and string.sub(value, 1, #ARGV[1]) == ARGV[1]
end

-- What has one exclusive holder is refused.
if there == 1 and ARGV[6] == 'skip' then
  local value, left, time = redis.pcall('GET', KEYS[1]), redis.pcall('PTTL', KEYS[1]), redis.pcall('TIME')
  if type(value) == 'string' and not is_ours(value) and type(left) == 'number' and not time['err'] then
    return count_skip() or {'HELD', value, left, in_ms(time), 1, 0, 0}
  end
end

-- Refreshes what is ours already, exclusively: it was granted, or an earlier attempt took it.
local function claim(value)
  redis.call('PEXPIRE', KEYS[1], ARGV[3]) -- first: it passes where memory is full, and after it so does SET
  local held, granted = string.gsub(value, '^(redislock1:%x+:%d+:)granted', '%1held')
  if granted > 0 then
    redis.call('SET', KEYS[1], held, 'XX', 'PX', ARGV[3])
  end
  return {'OK', held}
end

-- Whom a grant was made to has nothing else to ask.
if again and ARGV[5] == 'x' then
  local value = redis.pcall('GET', KEYS[1])
  if is_ours(value) and redis.call('EXISTS', KEYS[6]) == 0 then
    return claim(value)
  end
end

-- include line
local tombstone = KEYS[6]
local head, tail, mode, want = ARGV[1], ARGV[2], ARGV[5], ARGV[6]
local ttl = tonumber(ARGV[3])

-- include value

-- The server's clock, or the client's where an ACL forbids TIME: then only a floor for fences.
local micros = server_time()
if not micros and mode ~= 'x' then
  return redis.error_reply('NOPERM shared locks and slots need the TIME command')
end
local now = to_ms(micros, tonumber(ARGV[4]))

local token = string.match(head, '^redislock1:(%x+):$')
local ear = ARGV[7] or 'l'
local me = mode .. ':' .. ear .. ':' .. token .. ':' .. tail
if redis.call('EXISTS', tombstone, holders) > 0 then
  if redis.call('EXISTS', tombstone) == 1 then
    return {'CANCELLED'}
  end
  redis.call('ZREMRANGEBYSCORE', holders, '-inf', digits(now))
end

if is_ours(value) then
  return claim(value)
end
if again and mode ~= 'x' then
  for _, mine in ipairs(redis.call('ZRANGE', holders, 0, -1)) do
    if is_ours(mine) then
      local held = string.gsub(mine, '^(redislock1:%x+:%d+:)granted', '%1' .. (mode == 's' and 'shared' or 'slot'))
      redis.call('ZREM', holders, mine)
      redis.call('ZADD', holders, digits(now + ttl), held)
      keep(holders, ttl + 1000)
      return {'OK', held}
    end
  end
end

-- Puts our ticket into the line, or back into it, and returns its number; or an error.
local function get_in_line()
  local ticket = tonumber(ARGV[8])
  -- Who may not be called, or may not see who listens, is to poll.
  if ear == 'l' then
    local channel = queue .. ':' .. token
    if redis.pcall('PUBSUB', 'NUMSUB', channel)['err'] or type(redis.pcall('PUBLISH', channel, '')) == 'table' then
      return nil, redis.error_reply('NOPERM this user may not use pub/sub')
    end
  end
  -- PEXPIRE first: it passes where memory is full, and after it so does what keeps an old place.
  -- The number is the server's time, so that a lost counter does not let newcomers in front.
  if ticket then
    redis.call('PEXPIRE', queue, KEEP)
  else
    local last = tonumber(redis.call('HGET', state, 'ticket') or '0') or 0
    ticket = math.max(last + 1, micros or 0)
    redis.call('HSET', state, 'ticket', digits(ticket), 'slots', tonumber(mode) and mode or '1')
    redis.call('PEXPIRE', state, KEEP)
  end
  redis.call('ZADD', queue, digits(ticket), me)
  redis.call('PEXPIRE', queue, KEEP)
  if ear == 'p' then
    redis.call('ZREM', queue, mode .. ':l:' .. token .. ':' .. tail) -- where it listened before
    redis.call('ZADD', leases, digits(now + tonumber(ARGV[9])), token)
    redis.call('PEXPIRE', leases, KEEP)
  end
  return ticket
end

-- The server has lost its data: the holder that we know of is not there, nor its fence. It may well
-- run on, and put its lock back; so a waiter lets its lease run out first.
local known, known_left = tonumber(ARGV[11]) or 0, tonumber(ARGV[12]) or 0
if known_left > 0 and not value and redis.call('EXISTS', holders) == 0 and
    (tonumber(redis.call('HGET', state, 'fence') or '0') or 0) < known then
  local place, refused = get_in_line()
  return refused or {'HELD', '', known_left, digits(now), 1, redis.call('ZRANK', queue, me), digits(place)}
end

-- One N for all who hold or wait; it is bound as long as there is anybody.
local others = (value and string.sub(value, 1, 11) == 'redislock1:') or redis.call('EXISTS', holders, queue) > 0
if others then
  local bound = redis.call('HGET', state, 'slots')
  if bound and bound ~= (tonumber(mode) and mode or '1') then
    serve(me, now) -- drops the dead of the line, and may show that nobody is left
    if redis.call('EXISTS', lock, holders, queue) > 0 then
      return {'SLOTS', bound}
    end
  end
  local first = redis.call('EXISTS', queue) == 1 and serve(me, now)
  others = first and first ~= me
end

if not others and has_room(mode, now) then
  -- Sets nothing, as the key is not there. But behind a first write that needs no memory, such as
  -- those of leave(), a full memory refuses nothing any more.
  redis.call('SET', lock, '', 'XX')
  leave(me, ear, token) -- first: what is refused after the lock was set would leave it to nobody
  return {'OK', put(mode, token, tail, false, ttl, now)}
end

local stale = want == 'skip' and count_skip()
if stale then
  return stale
end

local ticket
if want == 'wait' then
  local place, refused = get_in_line()
  if refused then
    return refused
  end
  ticket = place
end

-- Whom to name: the exclusive holder, or the place that is free first.
value = redis.call('GET', lock)
local left, count = redis.pcall('PTTL', lock), 1
if type(left) == 'table' then
  left = -1 -- unknown, to a user who may not ask
end
if not value then
  local soonest = redis.call('ZRANGE', holders, 0, 0, 'WITHSCORES')
  value = soonest[1] or ''
  left = soonest[2] and tonumber(soonest[2]) - now or 0
  count = redis.call('ZCARD', holders)
end
return {'HELD', value, left, digits(now), count, redis.call('ZRANK', queue, me) or redis.call('ZCARD', queue),
        digits(ticket or 0)}
