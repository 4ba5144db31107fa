package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/alecthomas/kong"
	"github.com/cocache/cocache/host"
	"github.com/cocache/cocache/host/config"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnavailable = 69 // a service that is needed cannot be reached
	exitConfig      = 78 // the configuration is refused: do not restart
)

// commands is the command line.
type commands struct {
	Serve    serve    `cmd:"" default:"withargs" help:"Run the service (the default command)."`
	Validate validate `cmd:"" help:"Check a configuration: schema, files, checksums, every loader opened, Redis reachable."`
	Version  version  `cmd:"" help:"Print version, commit, Go and dependencies."`
}

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// exit is an error that carries the process's exit code.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return e.err.Error() }
func (e *exit) Unwrap() error { return e.err }

// run is the whole command: it parses args, runs, reports, and answers the exit
// code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var c commands
	code := -1
	parser, err := kong.New(&c, kong.Name("cocache-run"), kong.Writers(stdout, stderr),
		kong.Description("Hosts tenants' caches: loaders behind a leased cache on Redis."),
		kong.Exit(func(n int) { code = n }), kong.UsageOnError())
	if err != nil {
		fmt.Fprintln(stderr, "cocache-run:", err)
		return exitFailed
	}
	parsed, err := parser.Parse(args)
	if code >= 0 { // --help
		return code
	}
	if err != nil {
		fmt.Fprintf(stderr, "cocache-run: %v\nTry: cocache-run --help\n", err)
		return exitUsage
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	err = parsed.Run(&streams{stdin, stdout, stderr})
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "cocache-run: %v\n", err)
	var e *exit
	if errors.As(err, &e) {
		return e.code
	}
	return exitFailed
}

// file is the configuration that a command works on.
type file struct {
	File string `arg:"" help:"Configuration file; - is standard input."`
}

// load reads the configuration; what is wrong with it is the exit code's
// business.
func (f file) load(io *streams) (*config.Config, error) {
	var cfg *config.Config
	var err error
	if f.File == "-" {
		cfg, err = config.Load("-", io.in, os.LookupEnv)
	} else {
		cfg, err = config.Load(f.File, nil, os.LookupEnv)
	}
	if err != nil {
		return nil, &exit{exitConfig, fmt.Errorf("configuration refused\n%w", err)}
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(io.err, "warning: %s:%d:%d: %s: %s\n", w.File, w.Line, w.Column, w.Path, w.Message)
	}
	return cfg, nil
}

type serve struct {
	file
	LogFormat string `enum:"text,json" default:"text" help:"Format of log lines: text or json."`
	LogLevel  string `enum:"debug,info,warn,error" default:"info" help:"Least level of log lines: debug, info, warn or error."`
}

// Run serves until ctx ends.
func (s serve) Run(ctx context.Context, io *streams) error {
	cfg, err := s.load(io)
	if err != nil {
		return err
	}
	log := s.logger(io)
	h, err := host.Open(ctx, cfg, host.Options{Logger: log, Version: buildVersion().Version})
	switch {
	case ctx.Err() != nil && err != nil: // asked to end, which no loader is to blame for
		log.Info("ended before it served")
		return nil
	case err != nil:
		return openFailed(ctx, err)
	}
	err = h.Run(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err = errors.Join(err, h.Close(closing)); err == nil {
		log.Info("ended")
	}
	return err
}

// closeTimeout bounds what is left once requests have ended: refreshes, and
// loads whose readers have gone.
const closeTimeout = 5 * time.Second

// openFailed gives a loader that cannot run the exit code of a refused
// configuration, unless a signal cut it short.
func openFailed(ctx context.Context, err error) error {
	var broken *host.LoaderError
	if ctx.Err() == nil && errors.As(err, &broken) {
		return &exit{exitConfig, err}
	}
	return err
}

func (s serve) logger(io *streams) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		level = slog.LevelInfo // the enum above admits no other word
	}
	options := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(io.err, options))
	}
	return slog.New(slog.NewTextHandler(io.err, options))
}

type validate struct {
	file
	Offline bool `help:"Do not ask whether Redis can be reached."`
	JSON    bool `name:"json" help:"Print the faults as JSON."`
}

// Run checks what serve would need.
func (v validate) Run(ctx context.Context, io *streams) error {
	cfg, err := v.load(io)
	if err == nil {
		err = host.Check(ctx, cfg, slog.New(slog.NewTextHandler(io.err, nil)), v.Offline)
	}
	switch {
	case errors.Is(err, host.ErrRedis):
		err = &exit{exitUnavailable, err}
	case err != nil:
		err = openFailed(ctx, err)
	}
	if !v.JSON {
		if err == nil {
			fmt.Fprintf(io.out, "%s: ok, %d namespaces\n", v.File, len(cfg.Namespaces))
		}
		return err
	}
	return report(io, err)
}

// report prints what validate found as JSON; the exit code stays.
func report(io *streams, err error) error {
	out := struct {
		OK     bool           `json:"ok"`
		Errors []config.Fault `json:"errors"`
	}{OK: err == nil, Errors: []config.Fault{}}
	var faults *config.Error
	if errors.As(err, &faults) {
		out.Errors = faults.Faults
	} else if err != nil {
		out.Errors = append(out.Errors, config.Fault{Message: err.Error()})
	}
	encoder := json.NewEncoder(io.out)
	encoder.SetIndent("", "  ")
	return errors.Join(err, encoder.Encode(out))
}
