-- release: give a token back unused, if the key still holds exactly this one. A
-- stale copy beside a lease stays until its own end. A refresh token may be made
-- older instead: it keeps others from taking one until it has run out.
--
-- KEYS
--   1 entry
-- ARGV
--   1 token   24 bytes, of the lease or refresh
--   2 age     of the refresh token from now on, ms; -1: it is gone
-- Replies
--   released now
--   refused now   the key holds something else; nothing was done
-- Keeps: I4 I5 I14
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = string.format('%.0f', now)

local head = redis.pcall('GETRANGE', KEYS[1], 0, 122)
if type(head) == 'table' then
  if string.find(head.err, 'WRONGTYPE', 1, true) then return {'refused', clock} end
  return head
end
if string.sub(head, 1, 3) ~= '\255\2041' or string.sub(head, 5, 28) ~= ARGV[1] then return {'refused', clock} end

local none = string.rep('\0', 24) .. string.rep('0', 15)
if string.sub(head, 4, 4) ~= 'L' then
  local age = tonumber(ARGV[2])
  redis.call('SETRANGE', KEYS[1], 4, age < 0 and none or ARGV[1] .. string.format('%015.0f', now - age))
  return {'released', clock}
end
local left = (tonumber(string.sub(head, 94, 108)) or 0) - now
if left > 0 then
  redis.call('SETRANGE', KEYS[1], 3, 'S' .. none .. string.rep('0', 15))
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
else
  redis.call('DEL', KEYS[1])
end
return {'released', clock}
