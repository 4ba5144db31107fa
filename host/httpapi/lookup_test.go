package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/cache"
)

func TestCacheStatus(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name  string
		found cache.Lookup
		want  string
		ttl   string
	}{
		{"L2 hit", cache.Lookup{Kind: cache.Value, Source: cache.FromL2, LocalTTL: 42900 * time.Millisecond, TTL: 99 * s},
			"cocache-l2; hit; ttl=42", "99"},
		{"L1 hit", cache.Lookup{Kind: cache.Value, Source: cache.FromL1, TTL: 250 * s, LocalTTL: s},
			"cocache-l1; hit; ttl=250, cocache-l2; fwd=uri-miss; stored", "250"},
		{"L1 hit, not kept", cache.Lookup{Kind: cache.Value, Source: cache.FromL1, TTL: cache.Forever},
			"cocache-l1; hit, cocache-l2; fwd=uri-miss", "forever"},
		{"loaded, filled", cache.Lookup{Kind: cache.Value, Source: cache.FromLoader, StoredL1: true, TTL: 600 * s, LocalTTL: s},
			"cocache-l1; fwd=uri-miss; stored, cocache-l2; fwd=uri-miss; stored", "600"},
		{"joined", cache.Lookup{Kind: cache.Value, Source: cache.FromLoader, StoredL1: true, Joined: true, TTL: 600 * s, LocalTTL: s},
			"cocache-l1; fwd=uri-miss; stored, cocache-l2; fwd=uri-miss; collapsed; stored", "600"},
		{"waited", cache.Lookup{Kind: cache.Value, Source: cache.FromL1, Waited: true, TTL: 5 * s, LocalTTL: s},
			"cocache-l1; fwd=uri-miss; collapsed, cocache-l2; fwd=uri-miss; stored", "5"},
		{"fill refused", cache.Lookup{Kind: cache.Value, Source: cache.FromLoader, Degraded: cache.FillRefused, LocalTTL: s},
			"cocache-l1; fwd=uri-miss; stored=?0; detail=degraded, cocache-l2; fwd=uri-miss; stored", "0"},
		{"lease-wait over", cache.Lookup{Kind: cache.Value, Source: cache.FromLoader, Degraded: cache.LeaseWait, Waited: true, LocalTTL: s},
			"cocache-l1; fwd=uri-miss; stored=?0; detail=degraded, cocache-l2; fwd=uri-miss; stored", "0"},
		{"Redis down", cache.Lookup{Kind: cache.Value, Source: cache.FromLoader, Degraded: cache.RedisDown, LocalTTL: s},
			"cocache-l1; fwd=bypass; detail=unavailable, cocache-l2; fwd=uri-miss; stored", "0"},
		{"degraded copy", cache.Lookup{Kind: cache.Value, Source: cache.FromL2, Degraded: cache.FillRefused, LocalTTL: 7 * s},
			"cocache-l2; hit; ttl=7; detail=degraded", "0"},
		{"negative in L2", cache.Lookup{Kind: cache.Absent, Source: cache.FromL2, LocalTTL: 4 * s, TTL: 30 * s},
			"cocache-l2; hit; ttl=4; detail=absent", "30"},
		{"negative in L1", cache.Lookup{Kind: cache.Absent, Source: cache.FromL1, LocalTTL: 4 * s, TTL: 30 * s},
			"cocache-l1; hit; ttl=30; detail=absent, cocache-l2; fwd=uri-miss; stored", "30"},
		{"stale", cache.Lookup{Kind: cache.Value, Source: cache.FromStale, StaleFor: 3500 * time.Millisecond}, "cocache-l1; hit; ttl=-3; detail=stale", "0"},
		{"stale since now", cache.Lookup{Kind: cache.Value, Source: cache.FromStale}, "cocache-l1; hit; ttl=0; detail=stale", "0"},
		{"nothing held", cache.Lookup{Kind: cache.Unpopulated, LocalTTL: s}, "cocache-l1; fwd=uri-miss; detail=unpopulated", "0"},
		{"nothing held, known here", cache.Lookup{Kind: cache.Unpopulated, Source: cache.FromL2, LocalTTL: s},
			"cocache-l2; hit; ttl=1; detail=unpopulated", "0"},
		{"not to be kept", cache.Lookup{Kind: cache.Value, Source: cache.FromLoader}, "cocache-l1; fwd=uri-miss, cocache-l2; fwd=uri-miss", "0"},
	} {
		if got := cacheStatus(c.found); got != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.name, got, c.want)
		}
		if got := ttlText(c.found.TTL); got != c.ttl {
			t.Errorf("%s: ttl %s, want %s", c.name, got, c.ttl)
		}
	}
}

func TestHasDirective(t *testing.T) {
	for header, want := range map[string]bool{
		"only-if-cached": true, "max-age=3, Only-If-Cached": true, "": false, "only-if-cached-not": false,
		`x="a, only-if-cached"`: false, `x="a", only-if-cached`: true, `x="`: false, ",,=,": false, "only-if-cached=1": true,
	} {
		h := http.Header{"Cache-Control": {header}}
		if got := hasDirective(h, "only-if-cached"); got != want {
			t.Errorf("%q: got %v", header, got)
		}
	}
}

func TestSecondsRoundUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 1, time.Millisecond: 1, time.Second: 1, 1001 * time.Millisecond: 2, cache.Forever: 9223372037} {
		if got := seconds(d); got != want {
			t.Errorf("%s: got %d, want %d", d, got, want)
		}
	}
}
