//go:build wasip1

// Command guest-go is the loader that the tests talk to, in Go.
package main

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	guest "github.com/cocache/cocache/sdk/wasm"
)

func init() {
	guest.Handle(load)
	guest.HandleAll(loadAll)
}

func main() {}

func loadAll(keys [][]byte, c *guest.Context) []guest.Result {
	results := make([]guest.Result, len(keys))
	for i, k := range keys {
		if string(k) == "leave-out" {
			results[i] = guest.Absent()
			continue
		}
		results[i] = load(k, c)
	}
	return results
}

func load(key []byte, c *guest.Context) guest.Result {
	verb, rest, _ := strings.Cut(string(key), "/")
	switch verb {
	case "echo":
		return guest.Value([]byte(rest))
	case "size":
		return size(rest)
	case "setting":
		return setting(rest)
	case "sleep":
		return sleep(rest)
	case "log":
		guest.Log(guest.LevelInfo, rest)
		return guest.Value([]byte("ok"))
	case "fetch":
		return fetch(rest)
	case "background":
		return guest.Value(strconv.AppendBool(nil, c.Background()))
	case "previous":
		return guest.Value(strconv.AppendUint(nil, c.Previous(), 10))
	}
	return fixed(verb)
}

func fixed(key string) guest.Result {
	switch key {
	case "empty":
		return guest.Value(nil)
	case "absent":
		return guest.Absent()
	case "absent-ttl":
		return guest.Absent().For(7 * time.Second)
	case "retry":
		return guest.Retry("try later", 3*time.Second)
	case "error":
		return guest.Error("E_LUCK", "no such luck")
	case "ttl":
		return guest.Value([]byte("x")).For(5 * time.Minute)
	case "ttl-forever":
		return guest.Value([]byte("x")).Forever()
	case "ttl-zero":
		return guest.Value([]byte("x")).For(0)
	case "version":
		return guest.Value([]byte("x")).At(1<<64 - 1)
	case "no-store":
		return guest.Value([]byte("x")).NoStore()
	case "spin":
		spin()
	case "crash":
		panic("out of luck")
	case "nonsense":
		return guest.Error("", "an error with a version").At(1)
	}
	return guest.Error("", "no such key")
}

//go:noinline
func spin() {
	for {
	}
}

func size(digits string) guest.Result {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return guest.Error("", err.Error())
	}
	b := bytes.Repeat([]byte{0}, n)
	for i := range b {
		b[i] = byte(i % 251)
	}
	return guest.Value(b)
}

func setting(name string) guest.Result {
	if s, ok := guest.Setting(name); ok {
		return guest.Value([]byte(s))
	}
	return guest.Absent()
}

func sleep(digits string) guest.Result {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return guest.Error("", err.Error())
	}
	time.Sleep(time.Duration(n) * time.Millisecond)
	return guest.Value([]byte("slept"))
}

func fetch(url string) guest.Result {
	r, err := guest.Fetch(guest.Request{URL: url})
	if err != nil {
		return guest.Error("", "fetch: "+err.Error())
	}
	return guest.Value(r.Body)
}
