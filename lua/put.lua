-- put: overwrite whatever is under the key, which destroys any token, and tell
-- every instance. Publishes first: if that fails the key stays as it was, and
-- an early message only evicts.
--
-- KEYS
--   1 entry
-- ARGV
--   1 not-after   latest server time at which to begin, ms
--   2 channel     to publish on; empty: the caller does
--   3 frame       the invalidation message
--   4 state       V or M
--   5 ttl         ms; -1: never expires
--   6 tail        the entry from its version field on
-- Replies
--   late now      began after not-after; nothing was done
--   stored now
-- Keeps: I2 I4 I7 I8
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = string.format('%.0f', now)
if now > tonumber(ARGV[1]) then return {'late', clock} end

if ARGV[2] ~= '' then redis.call('PUBLISH', ARGV[2], ARGV[3]) end
local ends = ARGV[5] == '-1' and 999999999999999 or now + tonumber(ARGV[5])
local entry = '\255\2041' .. ARGV[4] .. string.rep('\0', 24) .. string.rep('0', 15)
  .. string.format('%015.0f', ends) .. string.rep('0', 65) .. ARGV[6]
if ARGV[5] == '-1' then
  redis.call('SET', KEYS[1], entry)
else
  redis.call('SET', KEYS[1], entry, 'PX', ARGV[5])
end
return {'stored', clock}
