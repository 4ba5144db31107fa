-- probe: may a script on one key publish on a channel that would hash to another
-- slot? Where it may not, the server answers an error.
--
-- KEYS
--   1 entry   of nobody; it is only named
-- ARGV
--   1 not-after   latest server time at which to begin, ms
--   2 channel     of nobody
-- Replies
--   late now      began after not-after; nothing was done
--   done now
-- Keeps: I7 I8
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = string.format('%.0f', now)
if now > tonumber(ARGV[1]) then return {'late', clock} end

redis.call('PUBLISH', ARGV[2], '')
return {'done', clock}
