// Command cocache-run hosts tenants' caches from one configuration file.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, func() { forceOnSecond(stop) })
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// forceOnSecond lets a second signal end the process at once, with 128 + its
// number.
func forceOnSecond(stop func()) {
	stop() // the first signal has been taken
	second := make(chan os.Signal, 1)
	signal.Notify(second, syscall.SIGTERM, os.Interrupt)
	go func() {
		if sig, ok := (<-second).(syscall.Signal); ok {
			os.Exit(128 + int(sig))
		}
	}()
}
