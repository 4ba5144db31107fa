-- fill: store what was loaded, if the key still holds exactly this token.
--
-- KEYS
--   1 entry
-- ARGV
--   1 token   24 bytes, of the lease or refresh
--   2 state   V or M
--   3 ttl     ms; -1: never expires
--   4 tail    the entry from its version field on
-- Replies
--   stored now
--   refused now   the key holds something else; nothing was done
-- Keeps: I1 I2 I4
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = string.format('%.0f', now)

local head = redis.pcall('GETRANGE', KEYS[1], 0, 27)
if type(head) == 'table' then
  if string.find(head.err, 'WRONGTYPE', 1, true) then return {'refused', clock} end
  return head
end
if string.sub(head, 1, 3) ~= '\255\2041' or string.sub(head, 5) ~= ARGV[1] then return {'refused', clock} end

local ends = ARGV[3] == '-1' and 999999999999999 or now + tonumber(ARGV[3])
local entry = '\255\2041' .. ARGV[2] .. string.rep('\0', 24) .. string.rep('0', 15)
  .. string.format('%015.0f', ends) .. string.rep('0', 65) .. ARGV[4]
if ARGV[3] == '-1' then
  redis.call('SET', KEYS[1], entry)
else
  redis.call('SET', KEYS[1], entry, 'PX', ARGV[3])
end
return {'stored', clock}
