-- invalidate: remove up to 512 entries in whatever state, which destroys their
-- tokens, and tell every instance in one message. Publishes first: if that
-- fails the keys stay as they were, and an early message only evicts. With a
-- stale-ttl a value stays behind as a stale copy; one that is there already keeps
-- its old end.
--
-- KEYS
--   * entry
-- ARGV
--   1 not-after   latest server time at which to begin, ms
--   2 channel     to publish on; empty: the caller does
--   3 frame       the invalidation message
--   4 stale-ttl   how long a value may be shown on, ms; 0: not at all
-- Replies
--   late now      began after not-after; nothing was done
--   done now
-- Keeps: I2 I4 I7 I8 I14
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = string.format('%.0f', now)
if now > tonumber(ARGV[1]) then return {'late', clock} end

if ARGV[2] ~= '' then redis.call('PUBLISH', ARGV[2], ARGV[3]) end
local stale_ttl = tonumber(ARGV[4])
if stale_ttl == 0 then
  redis.call('DEL', unpack(KEYS))
  return {'done', clock}
end

local NONE = string.rep('\0', 24) .. string.rep('0', 30)
local function pad(n) return string.format('%015.0f', n) end

-- until_of: the end of the stale copy that the entry leaves behind, and when it
-- was invalidated; 0 for none.
local function until_of(head)
  if type(head) ~= 'string' or #head < 123 or string.sub(head, 1, 3) ~= '\255\2041'
    or string.find(string.sub(head, 29, 123), '%D') then
    return 0
  end
  local state = string.sub(head, 4, 4)
  if state == 'V' then return math.min(now + stale_ttl, tonumber(string.sub(head, 44, 58))), pad(now) end
  if state == 'L' or state == 'S' then return tonumber(string.sub(head, 94, 108)), string.sub(head, 109, 123) end
  return 0
end

for _, key in ipairs(KEYS) do
  local head = redis.pcall('GETRANGE', key, 0, 122)
  local ends, since = until_of(head)
  local kept = ends > now and redis.pcall('SETRANGE', key, 3, 'S' .. NONE .. string.sub(head, 59, 93) .. pad(ends) .. since)
  if type(kept) == 'number' then
    redis.call('PEXPIRE', key, string.format('%.0f', ends - now))
  else -- nothing to keep, or no memory for it
    redis.call('DEL', key)
  end
end
return {'done', clock}
