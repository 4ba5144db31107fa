-- read: return a living value or negative entry; on a miss take the lease in
-- the same step; inside the refresh window take the refresh token.
--
-- KEYS
--   1 entry
-- ARGV
--   1 not-after        latest server time at which to begin, ms
--   2 token            24 bytes to lease or refresh with; empty: take neither
--   3 lease-ttl        life of a lease or refresh token, ms
--   4 refresh-window   rest of life, ms, at which a refresh token may be taken; 0: never
-- Replies
--   late now                     began after not-after; nothing was done
--   value now entry refresh      refresh is granted, held or none
--   lease now copy               the token now holds the lease; copy: the entry with a living stale value, or empty
--   held now left copy           another token holds the lease for left ms more; copy as above
--   miss now                     nothing here and no lease was asked for
--   unreadable now content       not an entry of ours
--   newer now                    an entry of a later format
--   foreign-type now             not a string
-- Keeps: I2 I4 I8 I14
local NONE = string.rep('\0', 24)
local function pad(n) return string.format('%015.0f', n) end
local stale_until = 0

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = string.format('%.0f', now)
if now > tonumber(ARGV[1]) then return {'late', clock} end

local entry = redis.pcall('GET', KEYS[1])
if type(entry) == 'table' then
  if string.find(entry.err, 'WRONGTYPE', 1, true) then return {'foreign-type', clock} end
  return entry
end

if entry then
  if string.sub(entry, 1, 2) ~= '\255\204' then return {'unreadable', clock, entry} end
  local format = string.sub(entry, 3, 3)
  if format > '1' then return {'newer', clock} end
  local state = string.sub(entry, 4, 4)
  if format ~= '1' or #entry < 174 or not string.find('LVMS', state, 1, true)
    or string.find(string.sub(entry, 29, 123), '%D') then
    return {'unreadable', clock, entry}
  end
  local b3, b2, b1, b0 = string.byte(entry, 171, 174)
  if #entry ~= 174 + string.byte(entry, 169) + ((b3 * 256 + b2) * 256 + b1) * 256 + b0 then
    return {'unreadable', clock, entry}
  end
  local issued = tonumber(string.sub(entry, 29, 43))
  local ends = tonumber(string.sub(entry, 44, 58))
  stale_until = tonumber(string.sub(entry, 94, 108))
  if state == 'L' then
    if ends > now and issued <= now then
      return {'held', clock, string.format('%.0f', ends - now), stale_until > now and entry or ''}
    end
  elseif state == 'S' then
    -- nobody holds a lease: as absent, but for the copy
  elseif ends > now then
    local refresh = 'none'
    local window = tonumber(ARGV[4])
    if ARGV[2] ~= '' and window > 0 and ends - now <= window then
      local held = string.sub(entry, 5, 28) ~= NONE and issued <= now and now - issued < tonumber(ARGV[3])
      refresh = held and 'held' or 'granted'
      if not held then redis.call('SETRANGE', KEYS[1], 4, ARGV[2] .. pad(now)) end
    end
    return {'value', clock, entry, refresh}
  end
end

if ARGV[2] == '' then return {'miss', clock} end
local life = tonumber(ARGV[3])
if stale_until > now then
  redis.call('SETRANGE', KEYS[1], 3, 'L' .. ARGV[2] .. pad(now) .. pad(now + life))
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(life, stale_until - now)))
  return {'lease', clock, entry}
end
redis.call('SET', KEYS[1], '\255\2041L' .. ARGV[2] .. pad(now) .. pad(now + life)
  .. string.rep('0', 85) .. NONE .. string.rep('\0', 7), 'PX', ARGV[3])
return {'lease', clock, ''}
