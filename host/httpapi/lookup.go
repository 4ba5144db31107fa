package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/codec"
	"github.com/cocache/cocache/runtime/policy"
)

// missing is the problem of a read that found no value; nil when it did.
func missing(found cache.Lookup, onlyIfCached bool) *problem {
	switch {
	case found.Kind == cache.Value:
		return nil
	case found.Kind == cache.Absent:
		return &problem{status: http.StatusNotFound, code: "key-not-found", detail: "the key does not exist at the source"}
	case onlyIfCached:
		return &problem{status: http.StatusGatewayTimeout, code: "not-cached", detail: "no tier holds the key and nobody was asked to load it"}
	default:
		return &problem{status: http.StatusNotFound, code: "key-not-found", detail: "nothing is held under the key"}
	}
}

// ttlText is how long L1 holds the answer, in whole seconds rounded down: who
// keeps it longer keeps it too long.
func ttlText(ttl time.Duration) string {
	if ttl == policy.Forever {
		return "forever"
	}
	return strconv.FormatInt(int64(ttl/time.Second), 10)
}

// cacheStatus says where an answer came from, as RFC 9211 writes it: a member
// per tier that was asked, the one nearest the source first.
func cacheStatus(found cache.Lookup) string {
	switch found.Source {
	case cache.FromL2:
		return member("cocache-l2", "hit", life(found.LocalTTL), localDetail(found))
	case cache.FromL1:
		if found.Waited {
			return member("cocache-l1", "fwd=uri-miss", "collapsed") + ", " + missedL2(found)
		}
		return member("cocache-l1", "hit", life(found.TTL), absentDetail(found)) + ", " + missedL2(found)
	case cache.FromLoader:
		return member("cocache-l1", passedL1(found)...) + ", " + missedL2(found)
	case cache.FromStale:
		return member("cocache-l1", "hit", "ttl="+strconv.FormatInt(-int64(found.StaleFor/time.Second), 10), "detail=stale")
	default:
		return member("cocache-l1", "fwd=uri-miss", "detail=unpopulated")
	}
}

func member(tier string, params ...string) string {
	for _, param := range params {
		if param != "" {
			tier += "; " + param
		}
	}
	return tier
}

// life is left out where there is no end: the parameter is a number.
func life(ttl time.Duration) string {
	if ttl == policy.Forever {
		return ""
	}
	return "ttl=" + ttlText(ttl)
}

// localDetail: that a negative copy is one matters more than how it was made,
// which Cocache-TTL tells too.
func localDetail(found cache.Lookup) string {
	switch {
	case found.Kind == cache.Unpopulated:
		return "detail=unpopulated"
	case found.Kind == cache.Value && found.Degraded != cache.NotDegraded:
		return "detail=degraded"
	}
	return absentDetail(found)
}

func absentDetail(found cache.Lookup) string {
	if found.Kind == cache.Absent {
		return "detail=absent"
	}
	return ""
}

// passedL1 is L1's part in an answer that was loaded.
func passedL1(found cache.Lookup) []string {
	switch found.Degraded {
	case cache.NotDegraded:
		if found.StoredL1 {
			return []string{"fwd=uri-miss", "stored"}
		}
		return []string{"fwd=uri-miss"} // the loader asked not to keep it
	case cache.RedisDown:
		return []string{"fwd=bypass", "detail=unavailable"}
	default:
		return []string{"fwd=uri-miss", "stored=?0", "detail=degraded"}
	}
}

func missedL2(found cache.Lookup) string {
	collapsed, stored := "", ""
	if found.Joined {
		collapsed = "collapsed"
	}
	if found.LocalTTL > 0 {
		stored = "stored"
	}
	return member("cocache-l2", "fwd=uri-miss", collapsed, stored)
}

// codecOf is the namespace's, the default filled in.
func (n *Namespace) codecOf() policy.Codec {
	if n.Codec == "" {
		return policy.JSON
	}
	return n.Codec
}

func (n *Namespace) contentType(found cache.Lookup) string {
	if own := ownType(n.codecOf(), found); own != "" {
		return own
	}
	return codec.ContentType(n.codecOf())
}

// ownType is the type that a raw value's writer gave it.
func ownType(c policy.Codec, found cache.Lookup) string {
	if c != policy.Raw {
		return ""
	}
	return found.ContentType
}

func (n *Namespace) cacheControl() string {
	if n.CacheControl == "" {
		return "no-store"
	}
	return n.CacheControl
}

// hasDirective looks for one word in Cache-Control; commas inside quotes
// separate nothing.
func hasDirective(header http.Header, word string) bool {
	for _, line := range header.Values("Cache-Control") {
		quoted := false
		parts := strings.FieldsFunc(line, func(r rune) bool {
			quoted = quoted != (r == '"')
			return r == ',' && !quoted
		})
		for _, part := range parts {
			name, _, _ := strings.Cut(part, "=")
			if strings.EqualFold(strings.TrimSpace(name), word) {
				return true
			}
		}
	}
	return false
}
