-- invalidate: remove up to 512 entries in whatever state, which destroys their
-- tokens, and tell every instance in one message. Publishes first: if that
-- fails the keys stay as they were, and an early message only evicts.
--
-- KEYS
--   * entry
-- ARGV
--   1 not-after   latest server time at which to begin, ms
--   2 channel     to publish on
--   3 frame       the invalidation message
-- Replies
--   late now      began after not-after; nothing was done
--   done now
-- Keeps: I2 I7 I8
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = string.format('%.0f', now)
if now > tonumber(ARGV[1]) then return {'late', clock} end

redis.call('PUBLISH', ARGV[2], ARGV[3])
redis.call('DEL', unpack(KEYS))
return {'done', clock}
