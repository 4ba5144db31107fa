// Package wasm makes a loader module of one Go function. A whole loader:
//
//	package main
//
//	import guest "github.com/cocache/cocache/sdk/wasm"
//
//	func init() { guest.Handle(load) }
//
//	func main() {}
//
//	func load(key []byte, c *guest.Context) guest.Result {
//		if string(key) == "answer" {
//			return guest.Value([]byte("42")).For(time.Hour)
//		}
//		return guest.Absent()
//	}
//
// Build it with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags='-s -w' -o loader.wasm .
//
// A call may use goroutines, but they stand still between calls. What the
// program prints goes to the namespace's log. A panic fails the key that was
// being loaded, with the panic's text; the program goes on.
package wasm
