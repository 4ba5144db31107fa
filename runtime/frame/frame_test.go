package frame

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/entry"
)

var sender = entry.NodeID([]byte("node-id-16-bytes"))

// golden are the bytes of frames: changing them changes what other versions
// hear.
var golden = []struct {
	name  string
	frame Frame
	hex   string
}{
	{"no key", Frame{Sender: sender, Number: 1},
		"01" + "00" + "6e6f64652d69642d31362d6279746573" + "0000000000000001" + "0000"},
	{"the empty key", Frame{Sender: sender, Number: 256, Keys: []string{""}},
		"01" + "00" + "6e6f64652d69642d31362d6279746573" + "0000000000000100" + "0001" + "00000000"},
	{"keys of any bytes", Frame{Sender: sender, Number: 1<<64 - 1, Keys: []string{"a\x00b", "\xff", "{}"}},
		"01" + "00" + "6e6f64652d69642d31362d6279746573" + "ffffffffffffffff" + "0003" +
			"00000003" + "610062" + "00000001" + "ff" + "00000002" + "7b7d"},
	{"an announcement of nothing", Frame{Sender: sender, Announcement: &Announcement{}},
		"01" + "01" + "6e6f64652d69642d31362d6279746573" + "0000000000000000" + "0000" + "00" + "0000000000000000" + "00000000"},
	{"an announcement", Frame{Sender: sender, Number: 300, Announcement: &Announcement{
		Since: 256, Window: 10001 * time.Millisecond, Unpublished: []Span{{1, 1}, {3, 300}}, Steady: true, Goodbye: true}},
		"01" + "01" + "6e6f64652d69642d31362d6279746573" + "000000000000012c" + "0002" + "03" + "0000000000000100" + "00002711" +
			"0000000000000001" + "0000000000000001" + "0000000000000003" + "000000000000012c"},
}

func TestGoldenBytes(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			if got := hex.EncodeToString(Append(nil, g.frame)); got != g.hex {
				t.Errorf("got  %s\nwant %s", got, g.hex)
			}
			raw, _ := hex.DecodeString(g.hex)
			if f, err := Decode(string(raw)); err != nil || !reflect.DeepEqual(f, g.frame) {
				t.Errorf("decoded %+v, %v", f, err)
			}
		})
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	if got := string(Append([]byte("before"), golden[0].frame)); !strings.HasPrefix(got, "before\x01\x00") {
		t.Errorf("got %q", got)
	}
}

func TestFullFrame(t *testing.T) {
	f := Frame{Sender: sender, Number: 9}
	for i := range MaxKeys {
		f.Keys = append(f.Keys, strings.Repeat("k", i))
	}
	if back, err := Decode(string(Append(nil, f))); err != nil || !reflect.DeepEqual(back, f) {
		t.Errorf("%d keys, %v", len(back.Keys), err)
	}
	defer func() {
		if recover() == nil {
			t.Error("513 keys were encoded")
		}
	}()
	f.Keys = append(f.Keys, "one more")
	Append(nil, f)
}

func TestDecodeIsStrict(t *testing.T) {
	whole := string(Append(nil, golden[2].frame))
	count := func(n uint16) string { return string(binary.BigEndian.AppendUint16([]byte(whole[:26]), n)) }
	tests := map[string]string{
		"version 0":          "\x00" + whole[1:],
		"version 2":          "\x02" + whole[1:],
		"version 255":        "\xff" + whole[1:],
		"kind 2":             "\x01\x02" + whole[2:],
		"kind 255":           "\x01\xff" + whole[2:],
		"keys as spans":      "\x01\x01" + whole[2:],
		"a reset":            string(AppendReset(nil, sender, 7)),
		"a trailing byte":    whole + "\x00",
		"a trailing key":     whole + "\x00\x00\x00\x00",
		"count too low":      count(2) + whole[28:],
		"count too high":     count(4) + whole[28:],
		"no count of three":  count(0) + whole[28:],
		"513 empty keys":     count(513) + strings.Repeat("\x00\x00\x00\x00", 513),
		"65535 keys":         count(65535) + strings.Repeat("\x00\x00\x00\x00", 65535),
		"length past end":    count(1) + "\x00\x00\x00\x02a",
		"length of 4 GiB":    count(1) + "\xff\xff\xff\xffa",
		"length of 2 GiB":    count(1) + "\x80\x00\x00\x00a",
		"text":               "invalidate everything, please, all",
		"keyless and a byte": count(0) + "x",
	}
	announced := func(number uint64, a Announcement) string {
		return string(Append(nil, Frame{Sender: sender, Number: number, Announcement: &a}))
	}
	spans := announced(9, Announcement{Unpublished: []Span{{1, 2}, {4, 9}}})
	for name, message := range map[string]string{
		"announced: since past the end": announced(9, Announcement{Since: 10}),
		"announced: span past the end":  announced(9, Announcement{Unpublished: []Span{{4, 10}}}),
		"announced: span of 0":          announced(9, Announcement{Unpublished: []Span{{0, 1}}}),
		"announced: span backwards":     announced(9, Announcement{Unpublished: []Span{{4, 3}}}),
		"announced: spans that touch":   announced(9, Announcement{Unpublished: []Span{{1, 2}, {3, 4}}}),
		"announced: spans backwards":    announced(9, Announcement{Unpublished: []Span{{5, 6}, {1, 2}}}),
		"announced: unknown flag":       spans[:28] + "\x04" + spans[29:],
		"announced: a trailing byte":    spans + "x",
		"announced: 65 spans":           spans[:26] + "\x00\x41" + spans[28:],
	} {
		tests[name] = message
	}
	for size := headerSize; size < len(spans); size++ {
		tests[fmt.Sprint("announced: cut at ", size)] = spans[:size]
	}
	for size := range len(whole) {
		tests[fmt.Sprint("cut at ", size)] = whole[:size]
	}
	for name, message := range tests {
		if f, err := Decode(message); !errors.Is(err, ErrBad) || !reflect.DeepEqual(f, Frame{}) {
			t.Errorf("%s: got %+v, %v", name, f, err)
		}
	}
}

// FuzzDecode: decoding never panics, and a frame has one form.
func FuzzDecode(f *testing.F) {
	for _, g := range golden {
		f.Add(string(Append(nil, g.frame)))
	}
	f.Fuzz(func(t *testing.T, message string) {
		frame, err := Decode(message)
		if err != nil {
			if !errors.Is(err, ErrBad) {
				t.Fatalf("untyped error: %v", err)
			}
			return
		}
		if len(frame.Keys) > MaxKeys {
			t.Fatalf("%d keys", len(frame.Keys))
		}
		if again := string(Append(nil, frame)); again != message {
			t.Fatalf("decoded %x, encoded %x", message, again)
		}
	})
}
