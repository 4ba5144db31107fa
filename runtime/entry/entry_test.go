package entry

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	tokenA = Token([]byte("node-id-16-bytes\x01\x02\x03\x04\x05\x06\x07\x08"))
	tokenB = Token([]byte("\xffode-id-16-byte\x00\x00\x00\x00\x00\x00\x00\x00\x09"))
)

// golden are the bytes of each state, field by field in the order of the
// layout: changing them changes what other versions find in Redis.
var golden = []struct {
	name   string
	entry  Entry
	fields []string
}{
	{"lease",
		Entry{State: Lease, Token: tokenA, IssuedAt: 1_700_000_000_123, Until: 1_700_000_010_123},
		[]string{"ffcc", hx("1"), hx("L"), hex.EncodeToString(tokenA[:]),
			hx("001700000000123"), hx("001700000010123"),
			zeros(20), zeros(15), zeros(15), zeros(15),
			zeros(20), strings.Repeat("00", 24), "00", "00", "00", "00000000", "", ""}},
	{"value",
		Entry{State: Value, Token: tokenB, IssuedAt: 7, Until: 1_700_000_600_000, Version: 1<<64 - 1, WriteID: tokenA,
			Body: Body{Codec: 1, ContentType: "a/b", Payload: "\x00payload\xff"}},
		[]string{"ffcc", hx("1"), hx("V"), hex.EncodeToString(tokenB[:]),
			hx("000000000000007"), hx("001700000600000"),
			zeros(20), zeros(15), zeros(15), zeros(15),
			hx("18446744073709551615"), hex.EncodeToString(tokenA[:]), "01", "03", "00", "00000009", hx("a/b"), hx("\x00payload\xff")}},
	{"negative",
		Entry{State: Negative, Until: Never, Version: 3, WriteID: tokenB},
		[]string{"ffcc", hx("1"), hx("M"), strings.Repeat("00", 24),
			zeros(15), hx("999999999999999"),
			zeros(20), zeros(15), zeros(15), zeros(15),
			hx("00000000000000000003"), hex.EncodeToString(tokenB[:]), "00", "00", "00", "00000000", "", ""}},
}

// offsets of the golden fields, as the Lua scripts count them (from 0).
var offsets = []int{0, 2, 3, 4, 28, 43, 58, 78, 93, 108, 123, 143, 167, 168, 169, 170, 174}

func hx(s string) string   { return hex.EncodeToString([]byte(s)) }
func zeros(n int) string   { return hx(strings.Repeat("0", n)) }
func unhx(s string) string { b, _ := hex.DecodeString(s); return string(b) }

func TestGoldenBytes(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			got, err := Encode(g.entry)
			if err != nil {
				t.Fatal(err)
			}
			if want := unhx(strings.Join(g.fields, "")); got != want {
				t.Errorf("got  %x\nwant %x", got, want)
			}
			for i, at := range offsets {
				if field := unhx(g.fields[i]); !strings.HasPrefix(got[at:], field) {
					t.Errorf("field %d at offset %d: want %q, got %q", i, at, field, got[at:])
				}
			}
			if back, err := Decode(got); err != nil || back != g.entry {
				t.Errorf("decoded %+v, %v", back, err)
			}
		})
	}
}

func TestLayoutIsWhatTheScriptsCount(t *testing.T) {
	for i, at := range []int{magicAt, formatAt, stateAt, tokenAt, issuedAt, untilAt, floorAt, floorUntilAt,
		staleUntilAt, invalidAt, versionAt, writeIDAt, codecAt, typeSizeAt, digestSizeAt, sizeAt, HeaderSize} {
		if at != offsets[i] {
			t.Errorf("field %d is at %d, want %d", i, at, offsets[i])
		}
	}
}

func TestDecodeTellsForeignFromNewer(t *testing.T) {
	whole, err := Encode(golden[1].entry)
	if err != nil {
		t.Fatal(err)
	}
	set := func(at int, with string) string { return whole[:at] + with + whole[at+len(with):] }
	tests := map[string]struct {
		bytes string
		want  error
	}{
		"empty":                    {"", ErrForeign},
		"text":                     {"hello", ErrForeign},
		"half the magic":           {"\xff", ErrForeign},
		"magic alone":              {magic, ErrForeign},
		"other magic":              {set(1, "\xcd"), ErrForeign},
		"older format":             {set(formatAt, "0"), ErrForeign},
		"newer format":             {set(formatAt, "2"), ErrNewer},
		"newest format":            {set(formatAt, "\xff"), ErrNewer},
		"newer format, cut":        {magic + "2", ErrNewer},
		"tombstone, not known yet": {set(stateAt, "T"), ErrForeign},
		"lower case state":         {set(stateAt, "v"), ErrForeign},
		"NUL state":                {set(stateAt, "\x00"), ErrForeign},
		"issued-at of letters":     {set(issuedAt, "00000000000000x"), ErrForeign},
		"until signed":             {set(untilAt, "-00000000000001"), ErrForeign},
		"until with a blank":       {set(untilAt, " 00000000000001"), ErrForeign},
		"until hexadecimal":        {set(untilAt, "0x0000000000001"), ErrForeign},
		"version of letters":       {set(versionAt, "0000000000000000000a"), ErrForeign},
		"version over 64 bits":     {set(versionAt, "18446744073709551616"), ErrForeign},
		"version far over":         {set(versionAt, "99999999999999999999"), ErrForeign},
		"content type too long":    {set(typeSizeAt, "\x80") + strings.Repeat("x", 200), ErrForeign},
		"content type cut":         {set(typeSizeAt, "\x7f"), ErrForeign},
		"payload cut":              {whole[:len(whole)-1], ErrForeign},
		"a trailing byte":          {whole + "x", ErrForeign},
		"a digest":                 {set(digestSizeAt, "\x20"), ErrForeign},
	}
	for size := range HeaderSize {
		want := ErrForeign
		tests[fmt.Sprint("cut at ", size)] = struct {
			bytes string
			want  error
		}{whole[:size], want}
	}
	for name, test := range tests {
		if e, err := Decode(test.bytes); !errors.Is(err, test.want) || e != (Entry{}) {
			t.Errorf("%s: got %+v, %v; want %v", name, e, err, test.want)
		}
	}
}

func TestDigitsFitSixtyFourBits(t *testing.T) {
	for s, want := range map[string]uint64{
		"": 0, "0": 0, "00012": 12, "18446744073709551615": 1<<64 - 1, "18446744073709551609": 1<<64 - 7,
	} {
		if n, ok := digits(s); !ok || n != want {
			t.Errorf("digits(%q) = %d, %v", s, n, ok)
		}
	}
	for _, s := range []string{"18446744073709551616", "18446744073709551620", "28446744073709551615", "184467440737095516150",
		" 1", "1 ", "+1", "-1", "1e3", "0x1", "1.", ":", "/", "\x00", "١"} {
		if n, ok := digits(s); ok {
			t.Errorf("digits(%q) = %d", s, n)
		}
	}
}

func TestContentTypeIsBounded(t *testing.T) {
	longest := Entry{State: Value, Body: Body{ContentType: strings.Repeat("x", MaxContentType), Payload: "p"}}
	s, err := Encode(longest)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Decode(s); err != nil || back != longest {
		t.Errorf("decoded %+v, %v", back, err)
	}
	longest.ContentType += "x"
	if _, err := Encode(longest); err == nil {
		t.Error("a content type of 128 bytes is encoded")
	}
}

func TestLeft(t *testing.T) {
	for _, test := range []struct {
		until, now int64
		left       time.Duration
		ends       bool
	}{
		{1000, 400, 600 * time.Millisecond, true},
		{1000, 1000, 0, true},
		{1000, 2000, 0, true},
		{Never, 1000, 0, false},
	} {
		if left, ends := (Entry{Until: test.until}).Left(test.now); left != test.left || ends != test.ends {
			t.Errorf("until %d at %d: %v, %v", test.until, test.now, left, ends)
		}
	}
}

// TestTokensAreIssuedOnce also under concurrency and from two nodes.
func TestTokensAreIssuedOnce(t *testing.T) {
	const workers, each = 8, 2000
	nodes := []*Tokens{NewTokens(NewNodeID()), NewTokens(NewNodeID())}
	issued := make([][]Token, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range each {
				issued[w] = append(issued[w], nodes[w%2].Next())
			}
		})
	}
	wg.Wait()
	seen := map[Token]bool{{}: true} // none is never issued
	for w, tokens := range issued {
		for _, token := range tokens {
			if seen[token] {
				t.Fatalf("token %s issued twice", token)
			}
			seen[token] = true
			if token.Node() != nodes[w%2].node {
				t.Fatalf("token %s is not of node %s", token, nodes[w%2].node)
			}
		}
	}
}

// FuzzDecode: decoding never panics, and what it accepts it says again.
func FuzzDecode(f *testing.F) {
	for _, g := range golden {
		s, err := Encode(g.entry)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s)
		f.Add(s[:HeaderSize-1])
	}
	f.Add(magic + "2")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Decode(s)
		if err != nil {
			if !errors.Is(err, ErrForeign) && !errors.Is(err, ErrNewer) {
				t.Fatalf("untyped error: %v", err)
			}
			return
		}
		again, err := Encode(e)
		if err != nil {
			t.Fatalf("decoded but cannot be encoded: %v", err)
		}
		if back, err := Decode(again); err != nil || back != e {
			t.Fatalf("%+v, %v after %+v", back, err, e)
		}
	})
}
