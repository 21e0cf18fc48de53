-- RELEASE: gives up our own value, or leaves a residue for the rest of a minimum hold; and records
-- the run. Another holder's value is never touched.
--
-- KEYS  1 the lock  2 its state
-- ARGV  1 our value   2 ms left of the minimum hold, 0 without   3 the residue's value
--       4 how long the state is kept, in ms
--       5 host  6 start, ms since the epoch  7 duration in ms  8 exit status   ("" for 5: no record)
--       9 "again": an earlier try may have done it already, and recorded the run
-- Reply {"OK"} | {"GONE"} | {"TAKEN", value}
local lock, state = KEYS[1], KEYS[2]
local left = tonumber(ARGV[2])
local value = redis.call('GET', lock)
local verdict = {'OK'}
if value ~= ARGV[1] then
  verdict = value and {'TAKEN', value} or {'GONE'}
elseif left > 0 then
  -- PEXPIRE first: it passes where memory is full, and then only the old value stands there longer.
  redis.call('PEXPIRE', lock, ARGV[2])
  redis.pcall('SET', lock, ARGV[3], 'XX', 'KEEPTTL')
else
  redis.call('DEL', lock)
end

if ARGV[5] ~= '' and (verdict[1] == 'OK' or ARGV[9] ~= 'again') then
  -- pcall: a full memory may refuse the record, but not undo the release.
  redis.pcall('HSET', state, 'last_host', ARGV[5], 'last_start', ARGV[6], 'last_ms', ARGV[7],
              'last_status', ARGV[8])
  redis.pcall('HINCRBY', state, 'runs', 1)
  if verdict[1] ~= 'OK' then
    redis.pcall('HINCRBY', state, 'losses', 1)
  end
  redis.pcall('PEXPIRE', state, ARGV[4])
end
return verdict
