package policy

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"1ms": time.Millisecond, "30s": 30 * time.Second, "5m": 5 * time.Minute, "1h": time.Hour, "1d": day,
		"1h30m": 90 * time.Minute, "1d2h3m4s5ms": day + 2*time.Hour + 3*time.Minute + 4*time.Second + 5*time.Millisecond,
		"1.5s": 1500 * time.Millisecond, "0.25ms": 250 * time.Microsecond, "0s": 0, "007s": 7 * time.Second,
		"100000d1ms": 100000*day + time.Millisecond, // exact far beyond a float's digits
		"106751d":    106751 * day,
	} {
		if got, err := ParseDuration(text); got != want || err != nil {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseDurationRefuses(t *testing.T) {
	for text, part := range map[string]string{
		"": "empty", "30": "no unit", "0": "no unit", "1h30": "no unit", "1.5": "no unit",
		"-5s": "negative", "5 s": "units are", "5y": "units are", "5us": "units are", "5S": "units are",
		"s": "not a duration", "ten": "not a duration", "+5s": "not a duration", " 5s": "not a duration",
		".5s": "not a duration", "5.s": "not a duration", "1.2.3s": "not a duration", ".s": "not a duration",
		"1e3s": "units are", "forever": "not a duration", "off": "not a duration",
		"106752d": "292 years", "106751d24h": "292 years", "9223372036854775807ms": "292 years",
		strings.Repeat("9", 400) + "s": "292 years",
	} {
		if got, err := ParseDuration(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("ParseDuration(%q) = %v, %v; want an error with %q", text, got, err, part)
		}
	}
}

func TestParseTTL(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"forever": Forever, "1ms": time.Millisecond, "1.5ms": 1500 * time.Microsecond, "10m": 10 * time.Minute,
	} {
		if got, err := ParseTTL(text); got != want || err != nil {
			t.Errorf("ParseTTL(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "0s", "0.9ms", "-1s", "off", "Forever", "30"} {
		if got, err := ParseTTL(text); err == nil {
			t.Errorf("ParseTTL(%q) = %v, want an error", text, got)
		}
	}
}

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		Forever: "forever", Off: "off", 0: "0s", time.Millisecond: "1ms", 90 * time.Minute: "1h30m",
		36 * time.Hour: "1d12h", 250 * time.Millisecond: "250ms", 1500 * time.Microsecond: "1.5ms", -time.Second: "-1s",
	} {
		if got := Text(d); got != want {
			t.Errorf("Text(%d) = %q, want %q", d, got, want)
		}
	}
}

// TestTextIsRead: what Text writes, ParseTTL reads as the same lifetime.
func TestTextIsRead(t *testing.T) {
	for range 10_000 {
		d := time.Duration(rand.Int64N(int64(Forever)/1e6)+1) * time.Millisecond
		if d%2 == 0 {
			d %= time.Hour
			d += time.Millisecond
		}
		if got, err := ParseTTL(Text(d)); got != d || err != nil {
			t.Fatalf("ParseTTL(%q) = %d, %v; want %d", Text(d), got, err, d)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"1h30m", "0.5ms", "1..2s", "99999999999d", "ms", "-1s", "1d1d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDuration(text); err == nil && (d < 0 || d == Forever) {
			t.Errorf("ParseDuration(%q) = %d", text, d)
		}
	})
}

func TestWithDefaults(t *testing.T) {
	want := Policy{
		TTL: 10 * time.Minute, MaxTTL: Forever, TTLJitter: 10, AbsentTTL: 30 * time.Second, RefreshWindow: Off, StaleTTL: Off,
		LeaseTTL: 10 * time.Second, LeaseWait: 3 * time.Second,
		LeasePoll: Poll{2 * time.Millisecond, 50 * time.Millisecond},
		Local: Local{
			MaxAge: 5 * time.Minute, DegradedMaxAge: 10 * time.Second, MaxEntries: 10_000, MaxBytes: 64 << 20,
		},
		Loads:       Loads{Timeout: 30 * time.Second, MaxConcurrent: 64, MaxQueued: 256, QueueWait: time.Second, BatchWindow: Off, BatchKeys: 100},
		ReadFailure: Degrade, InvalidateFailure: Retry, UnknownRead: ErrorUnknown, Codec: JSON,
		Limits: Limits{MaxKeyBytes: 4 << 10, MaxValueBytes: 8 << 20, MaxBatchKeys: 1000},
	}
	if got := Default(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if errs := (Policy{}).Validate(); errs != nil {
		t.Errorf("the default is refused: %v", errs)
	}
}

// TestWithDefaultsKeeps: what is said stays, twice over too, and a long first
// pause takes the longest with it.
func TestWithDefaultsKeeps(t *testing.T) {
	p := Policy{
		TTL: Forever, TTLJitter: NoJitter, AbsentTTL: time.Hour, LeaseWait: Off,
		LeasePoll: Poll{Min: time.Second}, Local: Local{Disabled: true, MaxEntries: 1},
		Loads: Loads{MaxQueued: NoQueue}, ReadFailure: Error, Codec: Raw,
	}
	got := p.WithDefaults()
	if got != got.WithDefaults() {
		t.Error("defaults of defaults differ")
	}
	want := Default()
	want.TTL, want.TTLJitter, want.AbsentTTL, want.LeaseWait = Forever, NoJitter, time.Hour, Off
	want.LeasePoll = Poll{time.Second, time.Second}
	want.Local.Disabled, want.Local.MaxEntries = true, 1
	want.Loads.MaxQueued, want.ReadFailure, want.Codec = NoQueue, Error, Raw
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if errs := got.Validate(); errs != nil {
		t.Errorf("refused: %v", errs)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		path   string
		part   string
		change func(*Policy)
	}{
		{"ttl", "at least 1ms", func(p *Policy) { p.TTL = time.Microsecond }},
		{"ttl", "at least 1ms, is off", func(p *Policy) { p.TTL = Off }},
		{"ttl", "over max-ttl (5m)", func(p *Policy) { p.MaxTTL = 5 * time.Minute }},
		{"ttl", "forever is over max-ttl (1d)", func(p *Policy) { p.TTL, p.MaxTTL = Forever, 24*time.Hour }},
		{"max-ttl", "at least 1ms", func(p *Policy) { p.MaxTTL, p.TTL = -5, Forever }},
		{"absent-ttl", "at least 1ms", func(p *Policy) { p.AbsentTTL = -time.Second }},
		{"refresh-window", "must end", func(p *Policy) { p.RefreshWindow = Forever }},
		{"refresh-window", "shorter than ttl (10m)", func(p *Policy) { p.RefreshWindow = 10 * time.Minute }},
		{"refresh-window", "at least 1ms", func(p *Policy) { p.RefreshWindow = 1 }},
		{"lease-ttl", "at most 1h, is 2h", func(p *Policy) { p.LeaseTTL = 2 * time.Hour }},
		{"lease-ttl", "must end", func(p *Policy) { p.LeaseTTL = Forever }},
		{"lease-wait", "must end", func(p *Policy) { p.LeaseWait = Forever }},
		{"lease-poll.min", "over lease-poll.max (1ms)", func(p *Policy) { p.LeasePoll.Max = time.Millisecond }},
		{"lease-poll.max", "must end", func(p *Policy) { p.LeasePoll.Max = Forever }},
		{"local.max-age", "must end", func(p *Policy) { p.Local.MaxAge = Forever }},
		{"local.degraded-max-age", "must end", func(p *Policy) { p.Local.DegradedMaxAge = Forever }},
		{"local.max-entries", "at least 1, is -1", func(p *Policy) { p.Local.MaxEntries = -1 }},
		{"local.max-bytes", "at least 1", func(p *Policy) { p.Local.MaxBytes = -1 }},
		{"loads.timeout", "must end", func(p *Policy) { p.Loads.Timeout = Forever }},
		{"loads.max-concurrent", "at least 1", func(p *Policy) { p.Loads.MaxConcurrent = -1 }},
		{"loads.max-queued", "negative", func(p *Policy) { p.Loads.MaxQueued = -2 }},
		{"loads.queue-wait", "at least 1ms", func(p *Policy) { p.Loads.QueueWait = Off }},
		{"loads.batch-window", "at least 1ms", func(p *Policy) { p.Loads.BatchWindow = time.Microsecond }},
		{"loads.batch-window", "shorter than loads.timeout (30s)", func(p *Policy) { p.Loads.BatchWindow = 30 * time.Second }},
		{"loads.batch-keys", "at least 1", func(p *Policy) { p.Loads.BatchKeys = -1 }},
		{"ttl-jitter", "is 51%", func(p *Policy) { p.TTLJitter = 51 }},
		{"ttl-jitter", "is -2%", func(p *Policy) { p.TTLJitter = -2 }},
		{"read-failure", "degrade or error", func(p *Policy) { p.ReadFailure = Retry }},
		{"codec", "json, string, msgpack or raw", func(p *Policy) { p.Codec = "xml" }},
		{"limits.max-key-bytes", "at least 1", func(p *Policy) { p.Limits.MaxKeyBytes = -1 }},
		{"limits.max-value-bytes", "at least 1", func(p *Policy) { p.Limits.MaxValueBytes = -1 }},
		{"limits.max-batch-keys", "at least 1", func(p *Policy) { p.Limits.MaxBatchKeys = -1 }},
	} {
		p := Policy{}
		c.change(&p)
		errs := p.Validate()
		count := 0
		for _, e := range errs {
			if e.Path == c.path {
				count++
				if !strings.Contains(e.Message, c.part) {
					t.Errorf("%s: message %q, want %q in it", c.path, e.Message, c.part)
				}
			}
		}
		if count != 1 {
			t.Errorf("%s: %d faults in %v, want one", c.path, count, errs)
		}
	}
}

// TestValidateSaysAll: the first fault does not hide the others.
func TestValidateSaysAll(t *testing.T) {
	errs := Policy{TTLJitter: 99, Codec: "xml", Local: Local{MaxAge: Forever}}.Validate()
	if len(errs) != 3 {
		t.Errorf("faults: %v", errs)
	}
	for _, path := range []string{"ttl-jitter: ", "codec: ", "local.max-age: "} {
		if !strings.Contains(errs.Error(), path) {
			t.Errorf("%q is not in %q", path, errs.Error())
		}
	}
}
