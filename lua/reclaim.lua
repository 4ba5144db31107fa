-- reclaim: turn content that nobody can read into a lease, if it is still the
-- content that was read.
--
-- KEYS
--   1 entry
-- ARGV
--   1 not-after   latest server time at which to begin, ms
--   2 sha1        of the content that was read, 40 hex digits
--   3 token       24 bytes to lease with
--   4 lease-ttl   ms
-- Replies
--   late now      began after not-after; nothing was done
--   lease now     the token now holds the lease
--   changed now   the content is another by now; nothing was done
-- Keeps: I2 I4 I6 I8
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = string.format('%.0f', now)
if now > tonumber(ARGV[1]) then return {'late', clock} end

local content = redis.pcall('GET', KEYS[1])
if type(content) == 'table' then
  if string.find(content.err, 'WRONGTYPE', 1, true) then return {'changed', clock} end
  return content
end
if not content or redis.sha1hex(content) ~= ARGV[2] then return {'changed', clock} end

local function pad(n) return string.format('%015.0f', n) end
redis.call('SET', KEYS[1], '\255\2041L' .. ARGV[3] .. pad(now) .. pad(now + tonumber(ARGV[4]))
  .. string.rep('0', 85) .. string.rep('\0', 31), 'PX', ARGV[4])
return {'lease', clock}
