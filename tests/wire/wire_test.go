package wire

import (
	"slices"
	"testing"
)

func TestWordsComeInPieces(t *testing.T) {
	stream := "*2\r\n$3\r\nGET\r\n$4\r\n\r\n*$\r\n*1\r\n$4\r\nPING\r\n"
	for size := 1; size <= len(stream); size++ {
		var r words
		var got [][]string
		for chunk := range slices.Chunk([]byte(stream), size) {
			got = append(got, r.read(chunk)...)
		}
		if len(got) != 2 || !slices.Equal(got[0], []string{"GET", "\r\n*$"}) || !slices.Equal(got[1], []string{"PING"}) {
			t.Fatalf("in pieces of %d: %q", size, got)
		}
	}
}
