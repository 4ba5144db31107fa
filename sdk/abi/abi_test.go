package abi

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const goldenRequest = `
	1000 01 01 d0070000 02000000 00000000
	0e000000 02000000 0807060504030201 6162
	0c000000 00000000 0000000000000000`

func TestRequestGolden(t *testing.T) {
	r := &Request{Kind: KindLoadAll, Background: true, BudgetMS: 2000, Keys: []Key{{"ab", 0x0102030405060708}, {"", 0}}}
	if got := EncodeRequest(r); !bytes.Equal(got, unhex(t, goldenRequest)) {
		t.Errorf("frame %x", got)
	}
	back, err := DecodeRequest(EncodeRequest(r))
	if err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("read back %+v, %v", back, err)
	}
}

func TestRequestMayGrow(t *testing.T) {
	b := unhex(t, `1400 00 00 05000000 01000000 00000000 ffffffff
		10000000 02000000 0000000000000000 6162 eeee`)
	r, err := DecodeRequest(b)
	if err != nil || len(r.Keys) != 1 || r.Keys[0].Key != "ab" {
		t.Errorf("got %+v, %v", r, err)
	}
}

const goldenResponse = `
	00 00 0000 e0930400 ffffffffffffffff 03000000 12000000 010203 0100 0000 0a000000 696d6167652f706e6721
	03 00 0000 ffffffff 0000000000000000 02000000 0e000000 6e6f 0200 0000 06000000 455f4c55434b
	01 00 0000 581b0000 0000000000000000 00000000 00000000`

func goldenAnswers() []Answer {
	return []Answer{
		{Status: StatusValue, TTLMS: 300000, Version: 1<<64 - 1, Body: []byte{1, 2, 3}, ContentType: []byte("image/png!")},
		{Status: StatusError, TTLMS: TTLDefault, Body: []byte("no"), Code: []byte("E_LUCK")},
		{Status: StatusAbsent, TTLMS: 7000, Body: []byte{}},
	}
}

func TestResponseGolden(t *testing.T) {
	want := goldenAnswers()
	var b []byte
	size := 0
	for i := range want {
		b = AppendAnswer(b, &want[i])
		size += want[i].Size()
	}
	if !bytes.Equal(b, unhex(t, goldenResponse)) || size != len(b) {
		t.Errorf("frame of %d bytes, announced %d: %x", len(b), size, b)
	}
	got, err := DecodeResponse(b, len(want))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read back %+v, %v", got, err)
	}
}

func TestResponseRefusals(t *testing.T) {
	cases := map[string]struct {
		frame string
		keys  int
		want  string
	}{
		"nothing":            {"", 1, "shorter than"},
		"two keys, one":      {"01000000 ffffffff 0000000000000000 00000000 00000000", 2, "shorter than"},
		"bytes behind":       {"01000000 ffffffff 0000000000000000 00000000 00000000 00", 1, "behind the last"},
		"unknown status":     {"05000000 ffffffff 0000000000000000 00000000 00000000", 1, "status is unknown"},
		"reserved":           {"00010000 ffffffff 0000000000000000 00000000 00000000", 1, "reserved"},
		"reserved, far":      {"00000001 ffffffff 0000000000000000 00000000 00000000", 1, "reserved"},
		"body too long":      {"00000000 ffffffff 0000000000000000 01000000 00000000", 1, "size does not fit"},
		"sizes that wrap":    {"00000000 ffffffff 0000000000000000 ffffffff 01000000", 1, "size does not fit"},
		"absent with body":   {"01000000 ffffffff 0000000000000000 01000000 00000000 00", 1, "has a body"},
		"error with version": {"03000000 ffffffff 0100000000000000 00000000 00000000", 1, "has a version"},
		"retry with version": {"02000000 ffffffff 0100000000000000 00000000 00000000", 1, "has a version"},
		"half a TLV":         {"00000000 ffffffff 0000000000000000 00000000 04000000 01000000", 1, "inside a TLV"},
		"TLV reserved":       {"00000000 ffffffff 0000000000000000 00000000 08000000 01000100 00000000", 1, "TLV's reserved"},
		"TLV too long":       {"00000000 ffffffff 0000000000000000 00000000 08000000 01000000 01000000", 1, "TLV's size"},
		"TLV twice":          {"00000000 ffffffff 0000000000000000 00000000 10000000 0100000000000000 0100000000000000", 1, "twice"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeResponse(unhex(t, c.frame), c.keys)
			var bad *FrameError
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestResponseUnknownTLVIsSkipped(t *testing.T) {
	b := unhex(t, "00000000 ffffffff 0000000000000000 00000000 0a000000 09000000 02000000 aabb")
	if got, err := DecodeResponse(b, 1); err != nil || got[0].ContentType != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add(unhex(f, goldenResponse), uint8(3))
	f.Add([]byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, keys uint8) {
		answers, err := DecodeResponse(b, int(keys))
		if err != nil {
			return
		}
		if len(answers) != int(keys) {
			t.Fatalf("%d answers for %d keys", len(answers), keys)
		}
		var again []byte
		for i := range answers {
			again = AppendAnswer(again, &answers[i])
		}
		// Unknown and empty TLVs are not written again, so a frame may shrink.
		if len(again) > len(b) {
			t.Fatalf("%d bytes became %d", len(b), len(again))
		}
		if _, err := DecodeResponse(again, int(keys)); err != nil {
			t.Fatalf("read again: %v", err)
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add(unhex(f, goldenRequest))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRequest(b)
		if err != nil {
			return
		}
		if back, err := DecodeRequest(EncodeRequest(r)); err != nil || len(back.Keys) != len(r.Keys) {
			t.Fatalf("read again: %+v, %v", back, err)
		}
	})
}
