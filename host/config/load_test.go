package config

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/policy"
)

const wasmSum = "93a44bbb96c751218e4c00d479e4c14358122a389acca16205b1e4d0dc5f9476"

func TestMinimal(t *testing.T) {
	equal(t, load1(t, "testdata/good/minimal.yaml"), &Config{
		Listen: Listen{HTTP: Listener{Address: "127.0.0.1:8080"}},
		Redis: Redis{
			Mode: Embedded, KeyPrefix: "cocache:", CommandTimeout: time.Second, Heartbeat: 5 * time.Second,
		},
		Limits: Limits{
			Limits:        policy.Limits{MaxKeyBytes: 4 << 10, MaxValueBytes: 8 << 20, MaxBatchKeys: 1000},
			MaxBatchBytes: 64 << 20,
		},
		Shutdown:   Shutdown{Timeout: 30 * time.Second},
		Namespaces: []Namespace{{Name: "users", Type: "cache", Policy: policy.Default(), CacheControl: "no-store"}},
	})
}

func TestFull(t *testing.T) {
	limits := policy.Limits{MaxKeyBytes: 2 << 10, MaxValueBytes: 1e6, MaxBatchKeys: 10}
	common := policy.Default()
	common.TTL, common.Limits = 20*time.Minute, limits
	common.Local.MaxEntries, common.Local.MaxAge = 7, time.Minute

	carts := common
	carts.TTL, carts.Codec = policy.Forever, policy.Raw
	orders := common
	orders.TTLJitter, orders.LeaseWait = policy.NoJitter, policy.Off
	orders.LeasePoll = policy.Poll{Min: 100 * time.Millisecond, Max: 100 * time.Millisecond}
	orders.Loads.MaxQueued, orders.Loads.Timeout = policy.NoQueue, time.Second

	script, err := os.ReadFile("testdata/good/users.js")
	if err != nil {
		t.Fatal(err)
	}
	inline := "export function load(key) {\n\treturn `${key}$$`\n}\n"
	settings := map[string]string{"table": "any", "schema": "public"}
	scriptLimits := LoaderLimits{
		Timeout: 2 * time.Second, MaxInstances: 2, MaxOutputBytes: 8 << 20, MaxHTTPRequests: 16, MaxHTTPBytes: 8 << 20,
	}
	shortLimits := scriptLimits
	shortLimits.Timeout = time.Second

	equal(t, load1(t, "testdata/good/full.yaml"), &Config{
		Listen: Listen{HTTP: Listener{Address: "unix:/run/cocache/http.sock"}},
		Redis: Redis{
			Mode: Cluster, Addresses: []string{"10.0.0.1:6379", "redis.internal:6379"},
			Username: "cocache", Password: "hunter2",
			TLS:       TLS{CAFile: "ca.pem", ServerName: "redis.internal"},
			KeyPrefix: "shop:", CommandTimeout: 500 * time.Millisecond, Heartbeat: 2 * time.Second,
		},
		Limits:    Limits{Limits: limits, MaxBatchBytes: 1 << 30},
		Shutdown:  Shutdown{Delay: 5 * time.Second, Timeout: time.Minute},
		Readiness: Readiness{RequireRedis: true},
		Namespaces: []Namespace{
			{Name: "carts", Type: "cache", Policy: carts, CacheControl: "no-store", Loader: &Loader{
				Engine: JS, File: "testdata/good/users.js", Name: "users.js",
				Source: script, SHA256: sum(script), Settings: settings, Limits: scriptLimits,
			}},
			{Name: "orders", Type: "cache", Policy: orders, CacheControl: "no-store", Loader: &Loader{
				Engine: JS, Name: "orders (inline)",
				Source: []byte(inline), SHA256: sum([]byte(inline)), Settings: settings, Limits: shortLimits,
			}},
			{Name: "shops", Type: "cache", Policy: common, CacheControl: "no-store"},
			{Name: "users", Type: "cache", CacheControl: "private, max-age=5", Policy: policy.Policy{
				TTL: 90 * time.Minute, MaxTTL: 24 * time.Hour, TTLJitter: 5, AbsentTTL: policy.Forever,
				RefreshWindow: time.Minute, StaleTTL: 5 * time.Second, LeaseTTL: 20 * time.Second, LeaseWait: 4 * time.Second,
				LeasePoll: policy.Poll{Min: time.Millisecond, Max: time.Millisecond},
				Local: policy.Local{
					Disabled: true, MaxAge: 2 * time.Minute, DegradedMaxAge: 3 * time.Second, MaxEntries: 5, MaxBytes: 1 << 20,
				},
				Loads: policy.Loads{Timeout: 10 * time.Second, MaxConcurrent: 3, MaxQueued: 4, QueueWait: 6 * time.Second,
					BatchWindow: 2 * time.Millisecond, BatchKeys: 7},
				ReadFailure: policy.Error, InvalidateFailure: policy.Error, UnknownRead: policy.AbsentUnknown, Codec: policy.Msgpack, Limits: limits,
			}, Loader: &Loader{
				Engine: Wasm, File: "testdata/good/users.wasm", Name: "users.wasm",
				Source: []byte("\x00asm\x01\x00\x00\x00"), SHA256: wasmSum,
				Settings:      map[string]string{"table": "users", "schema": "public"},
				AllowHTTP:     []string{"https://*.example.com", "http://[::1]:8080"},
				AllowNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")},
				Limits: LoaderLimits{
					Timeout: 3 * time.Second, MaxMemory: 16 << 20, MaxInstances: 1,
					MaxOutputBytes: 1 << 10, MaxHTTPRequests: 0, MaxHTTPBytes: 2 << 10,
				},
			}},
		},
	})
}

func load1(t *testing.T, file string) *Config {
	t.Helper()
	c, err := Load(file, nil, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// loadText loads a text as if it stood in testdata/good.
func loadText(t *testing.T, text string) (*Config, error) {
	t.Helper()
	return Load("testdata/good/text.yaml", strings.NewReader(text), testEnv)
}

// equal compares two values field by field and names those that differ.
func equal(t *testing.T, got, want any) {
	t.Helper()
	compare(t, "", reflect.ValueOf(got), reflect.ValueOf(want))
}

func compare(t *testing.T, path string, got, want reflect.Value) {
	t.Helper()
	switch {
	case got.Kind() == reflect.Pointer && !got.IsNil() && !want.IsNil():
		compare(t, path, got.Elem(), want.Elem())
	case got.Kind() == reflect.Struct && got.Type().PkgPath() != "net/netip":
		for i := range got.NumField() {
			compare(t, path+"."+got.Type().Field(i).Name, got.Field(i), want.Field(i))
		}
	case got.Kind() == reflect.Slice && got.Len() == want.Len() && got.Len() > 0:
		for i := range got.Len() {
			compare(t, path+"[]", got.Index(i), want.Index(i))
		}
	case !reflect.DeepEqual(got.Interface(), want.Interface()):
		t.Errorf("%s = %#v, want %#v", path, got.Interface(), want.Interface())
	}
}

// TestTextAsWritten: what YAML would read as a boolean or a number is the
// text that stands in the file.
func TestTextAsWritten(t *testing.T) {
	words := []string{"no", "on", "y", "off", "0123", "1e3", "null", "true", "0x1f", "1_000", "1.0", "2001-01-01"}
	var b strings.Builder
	b.WriteString("version: 1\nnamespaces:\n")
	for _, w := range words {
		b.WriteString("  " + w + ": { type: cache, loader: { js: { file: users.js }, settings: { " + w + ": ")
		if w == "null" {
			w = "'null'" // a value null is none
		}
		b.WriteString(w + " } } }\n")
	}
	c, err := loadText(t, b.String())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Namespaces) != len(words) {
		t.Fatalf("%d namespaces, want %d", len(c.Namespaces), len(words))
	}
	for _, ns := range c.Namespaces {
		equal(t, ns.Loader.Settings, map[string]string{ns.Name: ns.Name})
	}
}

func TestExpand(t *testing.T) {
	x := expander{testEnv, "testdata/good"}
	for text, want := range map[string]string{
		"":                           "",
		"plain $5 $":                 "plain $5 $",
		"$${BARE}":                   "${BARE}",
		"a${BARE}b${BARE}":           "a30b30",
		"${EMPTY}":                   "",
		"${EMPTY:-x}":                "x",
		"${UNSET:-}":                 "",
		"${UNSET:-a:-b$$}":           "a:-b$$",
		"${BARE:-x}":                 "30",
		"${DOLLAR}":                  "${BARE}$$", // not expanded again
		"${file:password}":           "hunter2",
		"${file:../good/password}/x": "hunter2/x",
	} {
		if got, err := x.expand(text); got != want || err != nil {
			t.Errorf("expand(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"${", "${}", "${A B}", "${UNSET}", "${NUL}", "${file:}", "${file:none}", "${UNSET:x}"} {
		if got, err := x.expand(text); err == nil {
			t.Errorf("expand(%q) = %q, want an error", text, got)
		}
	}
}

// TestFileDropsOneBreak: a file's text loses its last line break and no more.
func TestFileDropsOneBreak(t *testing.T) {
	dir := t.TempDir()
	x := expander{testEnv, dir}
	for content, want := range map[string]string{"a\n\n": "a\n", "a\r\n": "a", "a": "a", "\n": "", "a\r": "a\r"} {
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := x.expand("${file:f}"); got != want || err != nil {
			t.Errorf("%q gives %q, %v; want %q", content, got, err, want)
		}
	}
}

func TestLiteralSecretIsAWarning(t *testing.T) {
	const text = "version: 1\nredis:\n  addresses: ['localhost:1']\n  password: %\nnamespaces: { a: { type: cache } }\n"
	for password, warnings := range map[string]int{"hunter2": 1, "${BARE}": 0, "'${file:password}'": 0, "''": 0} {
		c, err := loadText(t, strings.Replace(text, "%", password, 1))
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Warnings) != warnings {
			t.Errorf("%s: warnings %v, want %d", password, c.Warnings, warnings)
		}
		for _, w := range c.Warnings {
			if w.Path != "redis.password" || w.Line != 4 || strings.Contains(w.String(), "hunter2") {
				t.Errorf("warning: %s", w)
			}
		}
	}
}

func TestAuthorityIsRead(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	const text = "version: 1\nredis: { addresses: ['localhost:1'], tls: { enabled: true, ca-file: ca.pem } }\nnamespaces: { a: { type: cache } }"
	c, err := Load(filepath.Join(dir, "config.yaml"), strings.NewReader(text), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(c.Redis.TLS.CA) {
		t.Errorf("CA = %q", c.Redis.TLS.CA)
	}
}

func TestEmbeddedInSoManyWords(t *testing.T) {
	c, err := loadText(t, "\uFEFFversion: 1\r\nredis: { mode: embedded, key-prefix: '' }\r\nnamespaces: { a: { type: cache } }\r\n")
	if err != nil {
		t.Fatal(err)
	}
	if !c.Redis.Embedded() || c.Redis.KeyPrefix != "" {
		t.Errorf("redis = %+v", c.Redis)
	}
}

func TestListenAddress(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:8080": true, "127.8.8.8:0": true, "[::1]:8080": true, "localhost:8080": true,
		"[::ffff:127.0.0.1]:80": true, "unix:/run/x.sock": true,
		"0.0.0.0:1": false, "[::]:1": false, ":1": false, "example.com:1": false, "10.0.0.1:1": false,
		"127.0.0.1": false, "127.0.0.1:http": false, "127.0.0.1:": false, "127.0.0.1:+1": false,
		"unix:": false, "unix:x": false, "unix:/" + strings.Repeat("x", 120): false,
	} {
		if _, err := listenAddress(address); (err == nil) != ok {
			t.Errorf("listenAddress(%q): %v, want ok %v", address, err, ok)
		}
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	_, err := Load("testdata/none.yaml", nil, nil)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "testdata/none.yaml") {
		t.Errorf("error %v", err)
	}
	if _, err = Load("testdata", nil, nil); err == nil {
		t.Error("a folder was read")
	}
	_, err = Load("-", strings.NewReader(strings.Repeat("#", maxFile+1)), nil)
	if err == nil || !strings.Contains(err.Error(), "larger than 1MiB") {
		t.Errorf("error %v", err)
	}
}

// TestHugeFiles: files that are something else are refused, and soon.
func TestHugeFiles(t *testing.T) {
	const n = 5000
	for name, text := range map[string]string{
		"keys":         strings.Repeat("k: 1\n", n),
		"flow":         "version: {" + strings.Repeat("k: 1, ", n) + "}",
		"brackets":     strings.Repeat("[", n),
		"entries":      strings.Repeat("- ", n),
		"keys of keys": strings.Repeat("? ", n),
		"tags":         "a: " + strings.Repeat("!a ", n),
		"list":         "redis: { addresses: [" + strings.Repeat("a,", n) + "] }",
		"text":         strings.Repeat("lorem ipsum ", n),
		"quotes":       strings.Repeat("'", n),
		"pipes":        strings.Repeat("a: |\n", n),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := loadText(t, text)
			var e *Error
			if !errors.As(err, &e) || len(e.Faults) > 101 {
				t.Errorf("error %.200v", err)
			}
			t.Log(time.Since(start), len(e.Faults))
		})
	}
}
