package l1

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cocache/cocache/runtime/entry"
)

// The embedded server takes pipelines of any length, though the client reads no
// answer before it has sent all.
func TestEmbeddedTakesLongPipelines(t *testing.T) {
	server := NewEmbedded()
	defer server.Close()
	client := Open(Options{Addresses: []string{"embedded"}, Dial: server.Dial, Logger: quiet, CommandTimeout: 20 * time.Second})
	defer client.Close()
	n := client.Namespace("n", entry.NewNodeID())
	keys := make([]string, 1000)
	puts := make([]KeyFill, len(keys))
	for i := range keys {
		keys[i] = fmt.Sprint(i)
		puts[i] = KeyFill{Key: keys[i], Fill: value(strings.Repeat("v", 10_000))}
	}
	for i, err := range n.PutAll(ctx, puts) {
		if err != nil {
			t.Fatalf("put %d: %v", i, err)
		}
	}
	for i, o := range n.ReadAll(ctx, keys, Ask{}) {
		if o.Err != nil || len(o.Reading.Entry.Payload) != 10_000 {
			t.Fatalf("read %d: %v, %v", i, o.Reading.Kind, o.Err)
		}
	}
}

// Clients that hang up before they have read their answers keep the server from
// nobody else.
func TestEmbeddedOutlivesClientsThatHangUp(t *testing.T) {
	server := NewEmbedded()
	defer server.Close()
	client := Open(Options{Addresses: []string{"embedded"}, Dial: server.Dial, Logger: quiet, CommandTimeout: 20 * time.Second})
	defer client.Close()
	n := client.Namespace("n", entry.NewNodeID())
	if err := n.Put(ctx, "k", value(strings.Repeat("v", 1<<20))); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		conn, err := server.Dial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var get strings.Builder
		for _, word := range []string{"EVAL", "return {redis.call('GET', KEYS[1])}", "1", prefix + "k"} {
			fmt.Fprintf(&get, "$%d\r\n%s\r\n", len(word), word)
		}
		if _, err := conn.Write([]byte(strings.Repeat("*4\r\n"+get.String(), 100))); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	if r, err := n.Read(ctx, "k", Ask{}); err != nil || r.Kind != Hit {
		t.Fatalf("then a read: %v, %v", r.Kind, err)
	}
}
