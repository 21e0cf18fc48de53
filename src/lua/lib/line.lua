-- THE LINE: what ACQUIRE, RELEASE, CANCEL and UNLOCK share. Included at build time, behind lib/keep.lua.
--
-- KEYS  1 the lock        string: the value of an exclusive holder (or of another program)
--       2 its state       hash: fence, ticket, slots (the N in use), counters, last run
--       3 the queue       zset: tickets by number; a ticket is MODE:EAR:TOKEN:TAIL
--       4 the holders     zset: values of shared and slot holders by their expiry in ms
--       5 the leases      zset: tokens of waiters that poll, by the ms until which they count
--
-- MODE is x (exclusive), s (shared) or the N of slots. EAR is l (listens on a channel of its own; a
-- closed connection shows at once) or p (polls, and renews its lease).
-- All times are the server's. `now` is a number of ms.
local lock, state, queue, holders, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local GRANT = 3000 -- ms that a waiter has to claim what it was granted

local function digits(number)
  return string.format('%.0f', number)
end

-- The server's clock in microseconds; nil where an ACL forbids TIME.
local function server_time()
  local time = redis.pcall('TIME')
  if time['err'] then
    return nil
  end
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- That clock in ms; `otherwise`, a client's, where it is forbidden.
local function to_ms(micros, otherwise)
  return micros and math.floor(micros / 1000) or otherwise
end

-- Keeps a helper key at least `ms` longer; never shortens what another holder needs.
local function keep(key, ms)
  if redis.call('PTTL', key) < ms then
    redis.call('PEXPIRE', key, digits(ms))
  end
end

-- MODE, EAR, TOKEN and TAIL of a ticket. A pattern costs as much as a command: each is read once.
local function parts(ticket)
  return string.match(ticket, '^([^:]*):(%a):([^:]*):(.*)$')
end

local function call_waiter(ear, token, message)
  if ear == 'l' then
    redis.pcall('PUBLISH', queue .. ':' .. token, message) -- refused: its own clock wakes it
  end
end

local function is_alive(ear, token, now)
  if ear == 'p' then
    local lease = redis.call('ZSCORE', leases, token)
    return lease and tonumber(lease) > now
  end
  -- Not PUBLISH's count: a monitor with PSUBSCRIBE * would make the dead look alive.
  local listeners = redis.pcall('PUBSUB', 'NUMSUB', queue .. ':' .. tostring(token))
  return listeners['err'] or listeners[2] > 0
end

local function leave(ticket, ear, token)
  redis.call('ZREM', queue, ticket)
  if ear == 'p' then
    redis.call('ZREM', leases, token)
  end
end

-- Whether one more holder of this mode fits; clears away those that have run out where they count. That N
-- is the same for all has been checked before.
local function has_room(mode, now)
  if mode == 'x' and redis.call('EXISTS', lock, holders) == 0 then
    return true
  end
  if redis.call('EXISTS', lock) == 1 then
    return false
  end
  if mode == 's' then
    return true
  end
  redis.call('ZREMRANGEBYSCORE', holders, '-inf', digits(now))
  return redis.call('ZCARD', holders) < (tonumber(mode) or 1)
end

local function free_slot(most)
  local used = {}
  for _, value in ipairs(redis.call('ZRANGE', holders, 0, -1)) do
    used[tonumber(string.match(value, '^[^:]*:[^:]*:[^:]*:%a+(%d*):')) or 0] = true
  end
  for slot = 1, most do
    if not used[slot] then
      return slot
    end
  end
  return most
end

-- Makes somebody a holder: the word is held for those who run, granted for those who must claim.
-- The fence is stored first: a script does not roll back, and a fence too many harms nobody.
local function put(mode, token, tail, granted, ttl, now)
  local last, start = tonumber(redis.call('HGET', state, 'fence') or '0') or 0, digits(now)
  local fence = last < now and start or digits(last + 1)
  -- HSET counts the fields it has made.
  local made = redis.call('HSET', state, 'fence', fence, 'slots', tonumber(mode) and mode or '1')
  if (made > 0 or not same_day(last, now)) and
      type(redis.pcall('PEXPIRE', state, KEEP)) == 'table' then
    if last == 0 then
      redis.pcall('DEL', state) -- forbidden: nothing new may stay behind for ever
    end
    redis.call('PEXPIRE', state, KEEP) -- and the script ends with the error
  end

  local word = granted and 'granted' or (mode == 'x' and 'held') or (mode == 's' and 'shared') or 'slot'
  if tonumber(mode) then
    word = word .. free_slot(tonumber(mode))
  end
  local value = 'redislock1:' .. token .. ':' .. fence .. ':' .. word .. ':' .. start .. ':' .. tail
  -- What is deleted is not there: but whoever may not release is not to acquire. Behind HSET, because
  -- for lack of memory Redis refuses only the first write of a script.
  if mode == 'x' then
    if not granted then
      redis.call('DEL', lock)
    end
    redis.call('SET', lock, value, 'NX', 'PX', digits(ttl))
  else
    redis.call('ZREM', holders, value)
    redis.call('ZADD', holders, digits(now + ttl), value)
    keep(holders, ttl + 1000)
  end
  return value
end

-- Hands what is free to the first of the line, as far as it fits, and wakes them. Dead tickets are
-- dropped on the way. Stops at `me`, the caller's own ticket: the caller helps itself.
-- The one who is then first watches over the one who was granted last, who may be gone unseen: it looks
-- when the grant is over, or as soon as a lease that was claimed at once. Returns its ticket, EAR and
-- TOKEN.
local function serve(me, now)
  local granted, full, patience = {}, false, GRANT
  local mode, ear, token, tail
  -- Two at a time: most often one is granted, and the next is told to watch.
  local heads, at = redis.call('ZRANGE', queue, '0', '1'), 1
  local first = heads[at]
  while first and first ~= me do
    mode, ear, token, tail = parts(first)
    if is_alive(ear, token, now) then
      if full or not has_room(mode, now) then
        break
      end
      put(mode, token, tail, true, GRANT, now)
      table.insert(granted, {ear, token})
      full = mode == 'x'
      patience = math.min(GRANT, tonumber(string.match(tail, '^%d+')) or GRANT)
    end
    leave(first, ear, token)
    at = at + 1
    if at > #heads then
      heads, at = redis.call('ZRANGE', queue, '0', '1'), 1
    end
    first = heads[at]
  end
  -- The server writes first to whom it was told last: who may go is to hear of it before who watches.
  if #granted > 0 and first and first ~= me then
    call_waiter(ear, token, 'watch ' .. patience)
  end
  for i = #granted, 1, -1 do
    call_waiter(granted[i][1], granted[i][2], 'go')
  end
  return first, ear, token
end
