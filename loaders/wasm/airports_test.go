package wasm_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/loaders/wasm"
	"github.com/cocache/cocache/runtime/loader"
)

type airport struct {
	IATA, Name, City, Country string
	Latitude, Longitude       float64
}

func open(t *testing.T) loader.BatchLoader {
	t.Helper()
	module, err := os.ReadFile("../../examples/quickstart/wasm/airports.wasm")
	if err != nil {
		t.Fatal(err)
	}
	l, err := wasm.Open(t.Context(), wasm.Spec{
		Name: "airports.wasm", Module: module, MaxMemory: 1 << 20,
		Capabilities: capability.Set{Log: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.(loader.BatchLoader)
}

// codes are those of the table, from its source.
func codes(t *testing.T) []string {
	t.Helper()
	source, err := os.ReadFile("../../examples/quickstart/wasm/airports.h")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^    \{"(.*?)"`).FindAllSubmatch(source, -1) {
		all = append(all, string(m[1]))
	}
	return all
}

// TestEveryAirport runs the example in examples/quickstart/wasm, which cannot
// hold a Go test beside its C source.
func TestEveryAirport(t *testing.T) {
	l, all := open(t), codes(t)
	if len(all) < 250 || !slices.IsSorted(all) {
		t.Fatalf("%d codes, sorted %v", len(all), slices.IsSorted(all))
	}
	reqs := make([]loader.Request, len(all))
	for i, c := range all {
		reqs[i].Key = strings.ToLower(c)
	}
	out, err := l.LoadAll(t.Context(), reqs)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range out {
		var a airport
		if err := json.Unmarshal(o.Result.Value, &a); err != nil || o.Err != nil {
			t.Errorf("%s: %s: %v, %v", all[i], o.Result.Value, err, o.Err)
			continue
		}
		if a.IATA != all[i] || a.Name == "" || a.City == "" || len(a.Country) != 2 ||
			max(a.Latitude, -a.Latitude) > 90 || max(a.Longitude, -a.Longitude) > 180 {
			t.Errorf("%s: %+v", all[i], a)
		}
	}
}

func TestOneAirport(t *testing.T) {
	l := open(t)
	r, err := l.Load(t.Context(), loader.Request{Key: "zrh"})
	want := `{"iata":"ZRH","name":"Zürich Airport","city":"Zürich","country":"CH","latitude":47.4647,"longitude":8.5492}`
	if err != nil || string(r.Value) != want {
		t.Errorf("got %s, %v", r.Value, err)
	}
	for _, key := range []string{"", "ZR", "XXX", "ZRHX", "\x00\xff\x00"} {
		if r, err := l.Load(t.Context(), loader.Request{Key: key}); err != nil || r.Status != loader.Absent {
			t.Errorf("%q: %+v, %v", key, r, err)
		}
	}
}
