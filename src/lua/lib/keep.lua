-- How long the state is kept, in ms: 90 days. To renew that with each run would be a command more for
-- each: the first to take the lock on a day does it, and a run or skips that outlast days.
local KEEP, DAY = 7776000000, 86400000

local function same_day(one, other)
  return math.floor(one / DAY) == math.floor(other / DAY)
end
