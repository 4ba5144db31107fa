package config

import (
	"fmt"
	"time"

	"github.com/cocache/cocache/host/config/document"
	"github.com/cocache/cocache/runtime/policy"
)

// defaults is the configuration before anything is read.
func defaults() *Config {
	return &Config{
		Listen: Listen{HTTP: Listener{Address: "127.0.0.1:8080"}},
		Redis: Redis{
			Mode: Auto, KeyPrefix: "cocache:",
			CommandTimeout: time.Second, Heartbeat: 5 * time.Second,
		},
		Limits:   Limits{Limits: policy.Default().Limits, MaxBatchBytes: 64 << 20},
		Shutdown: Shutdown{Timeout: 30 * time.Second},
	}
}

// fields of the whole file. The namespaces need what the other sections say
// and are only kept here, to be read when all of those are.
func (c *Config) fields(r *reader) section {
	return section{
		{name: "version", required: true, doc: "version of this format; write 1", value: version()},
		{name: "listen", doc: "where requests are taken", value: nested(section{
			{name: "http", required: true, doc: "the HTTP interface", value: nested(c.Listen.HTTP.fields())},
		})},
		{name: "redis", doc: "where values are kept; left out: in this process, gone with it", value: c.Redis.value()},
		{name: "limits", doc: "of one request", value: nested(c.Limits.fields())},
		{name: "shutdown", doc: "how the process ends", value: nested(section{
			{name: "delay", doc: "not ready, and still serving", value: pause(&c.Shutdown.Delay)},
			{name: "timeout", doc: "for requests under way", value: duration(&c.Shutdown.Timeout)},
		})},
		{name: "readiness", doc: "when the process asks for traffic", value: nested(section{
			{name: "require-redis", doc: "not ready while Redis is away", value: boolean(&c.Readiness.RequireRedis)},
		})},
		{name: "defaults", doc: "fields for every namespace that does not write its own", value: value{
			kind: "mapping", fields: namespaceDefaults(newNamespace("", policy.Default())),
			read: func(_ *reader, n *document.Node) { r.defaults = n },
		}},
		{name: "namespaces", required: true, doc: "at least one, by name", value: value{
			kind: "mapping of namespace", fields: namespaceFields(newNamespace("", policy.Default())),
			read: func(_ *reader, n *document.Node) { r.namespaces = n },
		}},
	}
}

func version() value {
	one := "1"
	return parsed(&one, "number", func(s string) (string, error) {
		if s != one {
			return "", fmt.Errorf("must be 1, is %q", s)
		}
		return s, nil
	}, func(s string) string { return s })
}

func (l *Listener) fields() section {
	return section{
		{name: "address", required: true, doc: "host:port or unix:/path",
			value: parsed(&l.Address, "address", listenAddress, plain)},
	}
}

func plain(s string) string { return s }

func (l *Limits) fields() section {
	return section{
		{name: "max-key-bytes", doc: "length of a key", value: size(&l.MaxKeyBytes)},
		{name: "max-value-bytes", doc: "length of a value", value: size(&l.MaxValueBytes)},
		{name: "max-batch-keys", doc: "keys of a batch", value: count(&l.MaxBatchKeys, 1)},
		{name: "max-batch-bytes", doc: "keys and values of a batch together", value: size(&l.MaxBatchBytes)},
	}
}

func (c *Redis) fields() section {
	return section{
		{name: "mode", doc: "how the nodes stand together; auto asks them",
			value: word(&c.Mode, string(Auto), string(Standalone), string(Cluster), string(Embedded))},
		{name: "addresses", doc: "host:port of one node or more; required unless embedded",
			value: items(&c.Addresses, "address", redisAddress)},
		{name: "db", doc: "number of the database", value: count(&c.DB, 0)},
		{name: "username", doc: "for AUTH", value: text(&c.Username)},
		{name: "password", doc: "for AUTH", secret: true, value: c.password()},
		{name: "tls", doc: "of the connection", value: nested(section{
			{name: "enabled", doc: "whether to use TLS", value: boolean(&c.TLS.Enabled)},
			{name: "ca-file", doc: "authorities to trust, PEM; left out: the system's", value: text(&c.TLS.CAFile)},
			{name: "server-name", doc: "expected in the certificate; left out: the address's host", value: text(&c.TLS.ServerName)},
		})},
		{name: "key-prefix", doc: "before every key and channel; one prefix is one cache",
			value: parsed(&c.KeyPrefix, "text", keyPrefix, plain)},
		{name: "command-timeout", doc: "of one command", value: duration(&c.CommandTimeout)},
		{name: "heartbeat", doc: "between two signs of life on the invalidation channel", value: duration(&c.Heartbeat)},
	}
}

func (c *Redis) value() value {
	v := nested(c.fields())
	v.read = func(r *reader, n *document.Node) {
		if n.Kind == document.Null || n.Kind == document.Mapping && len(n.Entries) == 0 {
			r.failKey(n, "has nothing under it: leave it out for a Redis inside this process, or name addresses")
			return
		}
		r.section(n, v.fields)
		if n.Kind == document.Mapping {
			r.checkRedis(n, c)
		}
	}
	return v
}

// password warns of a secret that stands in the file itself.
func (c *Redis) password() value {
	v := text(&c.Password)
	read := v.read
	v.read = func(r *reader, n *document.Node) {
		read(r, n)
		if n.Kind == document.Scalar && c.Password == n.Text && c.Password != "" {
			r.warn(n, "a secret stands in the file: write ${file:/path} or ${VAR}")
		}
	}
	return v
}

// namespaceFields are a namespace's own.
func namespaceFields(ns *Namespace) section {
	return append(section{
		{name: "type", required: true, doc: "what the namespace is: cache", value: word(&ns.Type, types[0])},
		{name: "loader", doc: "what reads the source; left out: values are put from outside",
			value: loaderValue(ns)},
	}, sharedFields(ns)...)
}

// namespaceDefaults are those that defaults may give.
func namespaceDefaults(ns *Namespace) section {
	ns.Loader = newLoader()
	reason := refused("not allowed in defaults: each namespace says it itself")
	return append(section{
		{name: "type", value: reason, doc: "not allowed here"},
		{name: "loader", doc: "for namespaces that have one", value: nested(append(section{
			{name: "wasm", value: reason, doc: "not allowed here"},
			{name: "js", value: reason, doc: "not allowed here"},
		}, ns.Loader.fields()...))},
	}, sharedFields(ns)...)
}

func sharedFields(ns *Namespace) section {
	return append(policyFields(&ns.Policy),
		field{name: "cache-control", doc: "sent on 200 and 304", value: parsed(&ns.CacheControl, "text", cacheControl, plain)})
}

func policyFields(p *policy.Policy) section {
	return section{
		{name: "ttl", doc: "life of a filled value", value: ttl(&p.TTL)},
		{name: "max-ttl", doc: "longest ttl a caller or loader may name", value: ttl(&p.MaxTTL)},
		{name: "ttl-jitter", doc: "by which fills spread their ttl both ways", value: percent(&p.TTLJitter)},
		{name: "absent-ttl", doc: "life of the knowledge that a key does not exist", value: ttl(&p.AbsentTTL)},
		{name: "refresh-window", doc: "last part of a life in which a hit starts a refresh", value: durationOrOff(&p.RefreshWindow)},
		{name: "stale-ttl", doc: "how long a value may be shown on after its invalidation, to readers who would wait", value: durationOrOff(&p.StaleTTL)},
		{name: "lease-ttl", doc: "how long one instance may load before another takes over", value: duration(&p.LeaseTTL)},
		{name: "lease-wait", doc: "how long a reader waits for another's load", value: durationOrOff(&p.LeaseWait)},
		{name: "lease-poll", doc: "pause between two looks at another's lease, growing", value: nested(section{
			{name: "min", doc: "the first", value: duration(&p.LeasePoll.Min)},
			{name: "max", doc: "the longest", value: duration(&p.LeasePoll.Max)},
		})},
		{name: "local", doc: "copies in this process", value: nested(section{
			{name: "enabled", doc: "whether to keep any", value: not(&p.Local.Disabled)},
			{name: "max-age", doc: "of a copy that Redis holds too", value: duration(&p.Local.MaxAge)},
			{name: "degraded-max-age", doc: "of a copy made while Redis was away", value: duration(&p.Local.DegradedMaxAge)},
			{name: "max-entries", doc: "number of copies", value: count(&p.Local.MaxEntries, 1)},
			{name: "max-bytes", doc: "keys and values together", value: size(&p.Local.MaxBytes)},
		})},
		{name: "loads", doc: "calls of the loader", value: nested(section{
			{name: "timeout", doc: "of one whole load", value: duration(&p.Loads.Timeout)},
			{name: "max-concurrent", doc: "at the same time", value: count(&p.Loads.MaxConcurrent, 1)},
			{name: "max-queued", doc: "waiting for their turn", value: countOr(&p.Loads.MaxQueued, policy.NoQueue)},
			{name: "queue-wait", doc: "longest wait for a turn", value: duration(&p.Loads.QueueWait)},
			{name: "batch-window", doc: "how long a load waits for others, to be one call of a loader that takes batches",
				value: durationOrOff(&p.Loads.BatchWindow)},
			{name: "batch-keys", doc: "most keys of such a call", value: count(&p.Loads.BatchKeys, 1)},
		})},
		{name: "read-failure", doc: "when Redis fails a read: load without it, or tell the caller",
			value: word(&p.ReadFailure, string(policy.Degrade), string(policy.Error))},
		{name: "invalidate-failure", doc: "when Redis fails an invalidation: try again in the background, or tell the caller",
			value: word(&p.InvalidateFailure, string(policy.Retry), string(policy.Error))},
		{name: "unknown-read", doc: "answer of a read that could learn nothing: an error, or absent",
			value: word(&p.UnknownRead, string(policy.ErrorUnknown), string(policy.AbsentUnknown))},
		{name: "codec", doc: "what a value is, in Redis and on the wire", value: word(&p.Codec,
			string(policy.JSON), string(policy.String), string(policy.Msgpack), string(policy.Raw))},
	}
}
