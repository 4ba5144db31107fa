-- release: give a token back unused, if the key still holds exactly this one.
--
-- KEYS
--   1 entry
-- ARGV
--   1 token   24 bytes, of the lease or refresh
-- Replies
--   released now
--   refused now   the key holds something else; nothing was done
-- Keeps: I5
local time = redis.call('TIME')
local clock = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))

local head = redis.pcall('GETRANGE', KEYS[1], 0, 27)
if type(head) == 'table' then
  if string.find(head.err, 'WRONGTYPE', 1, true) then return {'refused', clock} end
  return head
end
if string.sub(head, 1, 3) ~= '\255\2041' or string.sub(head, 5) ~= ARGV[1] then return {'refused', clock} end

if string.sub(head, 4, 4) == 'L' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SETRANGE', KEYS[1], 4, string.rep('\0', 24) .. string.rep('0', 15))
end
return {'released', clock}
