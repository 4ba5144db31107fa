// Package host runs a service of many namespaces from one configuration: it
// opens what the configuration names, serves it over HTTP, and ends it in good
// order.
//
// Open does everything that can fail before a request is taken, so that a
// service that started is sound; a Redis that is away is not a failure, only
// not ready. Run serves until its context ends and then drains. It owns no
// protocol: the cache is package runtime/cache's, the data plane httpapi's, health
// and metrics admin's.
package host

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cocache/cocache/host/admin"
	"github.com/cocache/cocache/host/config"
	"github.com/cocache/cocache/host/httpapi"
	"github.com/cocache/cocache/loaders"
	"github.com/cocache/cocache/runtime/channel"
	"github.com/cocache/cocache/runtime/l1"
)

// Host is an open service.
type Host struct {
	cfg      *config.Config
	log      *slog.Logger
	embedded *l1.Embedded // nil with a real Redis
	redis    *l1.Client
	feed     *channel.Subscriber
	tenants  map[string]*tenant
	metrics  *admin.Metrics
	server   *http.Server
	listener net.Listener
	life     atomic.Int32 // a lifeStage
	stood    atomic.Bool  // Redis and every subscription were there once
}

// lifeStage is how far the service is on its way to the end.
type lifeStage = int32

const (
	serving  lifeStage = iota
	leaving            // not ready, still serving
	draining           // requests under way only
)

// Options of a Host.
type Options struct {
	Logger  *slog.Logger
	Version string
}

// Open prepares a service and takes its address.
func Open(ctx context.Context, cfg *config.Config, o Options) (*Host, error) {
	h := &Host{cfg: cfg, log: o.Logger, tenants: map[string]*tenant{}, metrics: admin.NewMetrics(o.Version)}
	if err := h.open(ctx); err != nil {
		return nil, errors.Join(err, h.Close(context.WithoutCancel(ctx)))
	}
	return h, nil
}

func (h *Host) open(ctx context.Context) (err error) {
	if h.listener, err = listen(h.cfg.Listen.HTTP.Address); err != nil {
		return err
	}
	opened, err := openLoaders(ctx, h.cfg, h.log) // before Redis: a broken loader is a fault of the configuration
	if err != nil {
		return err
	}
	if err := h.openRedis(); err != nil {
		closeLoaders(opened)
		return err
	}
	if err := h.openTenants(ctx, opened); err != nil {
		return err
	}
	h.metrics.Health(h.health)
	h.server = &http.Server{
		Handler:           h.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelWarn),
	}
	return nil
}

// openTenants opens the namespaces side by side: without a Redis each waits for
// one as long as a command may take. It takes the loaders over.
func (h *Host) openTenants(ctx context.Context, opened map[string]loaders.Loader) error {
	tenants := make([]*tenant, len(h.cfg.Namespaces))
	errs := make([]error, len(tenants))
	var opening sync.WaitGroup
	for i, ns := range h.cfg.Namespaces {
		opening.Go(func() { tenants[i], errs[i] = h.openTenant(ctx, ns, opened[ns.Name]) })
	}
	opening.Wait()
	for i, ns := range h.cfg.Namespaces {
		if errs[i] == nil {
			h.tenants[ns.Name] = tenants[i]
			delete(opened, ns.Name)
		}
	}
	closeLoaders(opened) // those of namespaces that could not be opened
	return errors.Join(errs...)
}

func listen(address string) (net.Listener, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
		if err := removeDeadSocket(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("listen.http.address: %w", err)
	}
	return l, nil
}

// removeDeadSocket removes a socket file that a killed process left behind,
// and nothing that anybody listens on.
func removeDeadSocket(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return nil // nothing there, or something that Listen will complain about
	}
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		conn.Close()
		return fmt.Errorf("listen.http.address: %s is in use", path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("listen.http.address: remove dead socket: %w", err)
	}
	return nil
}

func (h *Host) openRedis() error {
	r := h.cfg.Redis
	options, err := redisOptions(r, h.log)
	if err != nil {
		return err
	}
	if r.Embedded() {
		h.embedded = l1.NewEmbedded()
		options.Mode, options.Addresses, options.Dial = l1.Standalone, []string{"embedded"}, h.embedded.Dial
		h.log.Warn("no redis configured: entries live in this process only, are gone when it ends, " +
			"and no other instance shares them")
	}
	h.redis = l1.Open(options)
	h.feed = channel.Open(h.redis, channel.Options{Heartbeat: r.Heartbeat, Timeout: r.CommandTimeout, Logger: h.log})
	return nil
}

func redisOptions(r config.Redis, log *slog.Logger) (l1.Options, error) {
	o := l1.Options{Mode: l1.Mode(r.Mode), Addresses: r.Addresses, DB: r.DB, Username: r.Username,
		Password: r.Password, CommandTimeout: r.CommandTimeout, KeyPrefix: r.KeyPrefix, Heartbeat: r.Heartbeat, Logger: log}
	if !r.TLS.Enabled {
		return o, nil
	}
	var err error
	o.TLS, err = clientTLS(r.TLS)
	return o, err
}

func clientTLS(t config.TLS) (*tls.Config, error) {
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if len(t.CA) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(t.CA) {
			return nil, fmt.Errorf("redis.tls.ca-file: no certificate in %s", t.CAFile)
		}
	}
	return c, nil
}

// handler is the data plane with health and metrics beside it.
func (h *Host) handler() http.Handler {
	plane := admin.New(admin.Options{Metrics: h.metrics, Ready: h.ready})
	limits := h.cfg.Limits
	return httpapi.New(httpapi.Options{
		Namespaces: h,
		Limits: httpapi.Limits{MaxKeyBytes: limits.MaxKeyBytes, MaxValueBytes: limits.MaxValueBytes,
			MaxBatchKeys: limits.MaxBatchKeys, MaxBatchBytes: limits.MaxBatchBytes},
		Loopback: true, // the configuration admits no other listener
		Draining: func() bool { return h.life.Load() == draining },
		Logger:   h.log, Observe: h.metrics.Request, Fallback: plane,
	})
}

// Namespace is one of the directory that the data plane serves.
func (h *Host) Namespace(name string) (*httpapi.Namespace, bool) {
	t, ok := h.tenants[name]
	if !ok {
		return nil, false
	}
	return &t.api, true
}

// Names are those of the namespaces, in the order of the configuration.
func (h *Host) Names() []string {
	names := make([]string, len(h.cfg.Namespaces))
	for i, ns := range h.cfg.Namespaces {
		names[i] = ns.Name
	}
	return names
}

// look is what the process finds when it looks around.
func (h *Host) look(ctx context.Context) (redisUp, feedUp bool) {
	return h.redis.Probe(ctx) == nil, h.feed.Up()
}

// ready says whether the process wants traffic, and why not.
func (h *Host) ready(ctx context.Context) admin.Readiness {
	redisUp, feedUp := h.look(ctx)
	return h.judge(redisUp, feedUp)
}

func (h *Host) health() admin.Health {
	redisUp, feedUp := h.look(context.Background()) // bounded by command-timeout
	return admin.Health{Ready: h.judge(redisUp, feedUp).Status != admin.NotReady, RedisUp: redisUp, SubscriptionUp: feedUp}
}

// judge wants traffic once Redis ran a script and every subscription stood; a
// Redis lost later only degrades, unless it is required.
func (h *Host) judge(redisUp, feedUp bool) admin.Readiness {
	lost := "redis runs no scripts"
	if redisUp {
		lost = "invalidations do not arrive"
	}
	switch {
	case h.life.Load() != serving:
		return admin.Readiness{Status: admin.NotReady, Reason: "shutting down"}
	case redisUp && feedUp:
		h.stood.Store(true)
		return admin.Readiness{Status: admin.Ready}
	case !h.stood.Load():
		return admin.Readiness{Status: admin.NotReady, Reason: lost + " yet"}
	case h.cfg.Readiness.RequireRedis:
		return admin.Readiness{Status: admin.NotReady, Reason: lost}
	default:
		return admin.Readiness{Status: admin.Degraded, Reason: lost}
	}
}

// Addr is where the service listens.
func (h *Host) Addr() string { return h.listener.Addr().String() }

// Run serves until ctx ends and then drains: not ready at once, serving on for
// shutdown.delay, then only what is under way for up to shutdown.timeout.
func (h *Host) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- h.server.Serve(h.listener) }()
	h.log.Info("serving", "http", h.Addr(), "namespaces", len(h.tenants))
	select {
	case err := <-served:
		return fmt.Errorf("serve http: %w", err)
	case <-ctx.Done():
	}
	h.log.Info("draining", "delay", h.cfg.Shutdown.Delay, "timeout", h.cfg.Shutdown.Timeout)
	h.life.Store(leaving)
	time.Sleep(h.cfg.Shutdown.Delay)
	h.life.Store(draining)
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.cfg.Shutdown.Timeout)
	defer cancel()
	err := h.server.Shutdown(limit)
	if err != nil {
		err = errors.Join(fmt.Errorf("drain: requests still under way after shutdown.timeout = %s", h.cfg.Shutdown.Timeout), h.server.Close())
	}
	<-served // always http.ErrServerClosed by now
	return err
}

// Close ends everything that Open opened, the namespaces first so that their
// leases are given back while Redis is there.
func (h *Host) Close(ctx context.Context) error {
	var errs []error
	if h.listener != nil {
		if err := h.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, h.closeTenants(ctx)...)
	if h.feed != nil {
		h.feed.Close()
	}
	if h.redis != nil {
		h.redis.Close()
	}
	if h.embedded != nil {
		h.embedded.Close()
	}
	return errors.Join(errs...)
}

// closeTenants closes them side by side, so that each has all of ctx's time.
func (h *Host) closeTenants(ctx context.Context) []error {
	errs := make([]error, len(h.tenants))
	var closing sync.WaitGroup
	i := 0
	for _, t := range h.tenants {
		result := &errs[i]
		closing.Go(func() { *result = t.close(ctx) })
		i++
	}
	closing.Wait()
	return errs
}
