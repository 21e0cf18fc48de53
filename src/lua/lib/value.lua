-- The value in the key `lock`, or nil; a key of another type ends the script with an error.
local value = redis.pcall('GET', lock)
if type(value) == 'table' then
  if not string.find(value['err'], 'WRONGTYPE', 1, true) then
    return value
  end
  return redis.error_reply('NOTALOCK the key holds a ' .. redis.call('TYPE', lock)['ok'])
end
