// Command cocache-run hosts tenants' caches from one configuration file.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, end := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2) // one channel for both: between two, a signal could be lost
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go obey(signals, end)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// obey drains at the first signal, and at the second ends the process at once,
// with 128 + its number.
func obey(signals <-chan os.Signal, drain func()) {
	<-signals
	drain()
	if sig, ok := (<-signals).(syscall.Signal); ok {
		os.Exit(128 + int(sig))
	}
}
