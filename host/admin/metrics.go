package admin

import (
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// namespaceLabel carries the namespace's name on every series of its own.
const namespaceLabel = "cocache_namespace"

// Metrics are the process's series.
type Metrics struct {
	registry *prometheus.Registry
	reads    *prometheus.HistogramVec
	loads    *prometheus.HistogramVec
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	stats    *statsCollector
}

// NewMetrics makes the series that do not belong to a namespace.
func NewMetrics(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		reads: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cocache_read_duration_seconds", Help: "Time of reads that were not answered from L2, by where the answer came from.",
			Buckets: prometheus.ExponentialBucketsRange(50e-6, 30, 16),
		}, []string{namespaceLabel, "source"}),
		loads: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cocache_load_duration_seconds", Help: "Time of loader calls.",
			Buckets: prometheus.ExponentialBucketsRange(1e-3, 60, 14),
		}, []string{namespaceLabel}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cocache_http_requests_total", Help: "HTTP requests by operation and status.",
		}, []string{"operation", "status"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cocache_http_request_duration_seconds", Help: "Time of HTTP requests by operation.",
			Buckets: prometheus.ExponentialBucketsRange(50e-6, 30, 16),
		}, []string{"operation"}),
		stats: &statsCollector{namespaces: map[string]func() cache.Stats{}},
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "cocache_build_info", Help: "1; what runs.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()}})
	build.Set(1)
	m.registry.MustRegister(m.reads, m.loads, m.requests, m.took, build, m.stats,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Request counts one HTTP request; operation is a route's name.
func (m *Metrics) Request(operation string, status int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(status)).Inc()
	m.took.WithLabelValues(operation).Observe(took.Seconds())
}

// Health is what a look at the process's surroundings found.
type Health struct {
	Ready          bool // /readyz would say 200
	RedisUp        bool // Redis ran a script
	SubscriptionUp bool // every invalidation channel is confirmed
}

// Health adds the series that look asks for at each scrape.
func (m *Metrics) Health(look func() Health) { m.registry.MustRegister(healthCollector(look)) }

type healthCollector func() Health

var (
	readyDesc   = prometheus.NewDesc("cocache_ready", "1 when the process wants traffic.", nil, nil)
	redisDesc   = prometheus.NewDesc("cocache_redis_up", "1 when Redis runs scripts.", nil, nil)
	channelDesc = prometheus.NewDesc("cocache_subscription_up", "1 when every invalidation channel is confirmed.", nil, nil)
)

func (c healthCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{readyDesc, redisDesc, channelDesc} {
		out <- d
	}
}

func (c healthCollector) Collect(out chan<- prometheus.Metric) {
	h := c()
	out <- prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, number(h.Ready))
	out <- prometheus.MustNewConstMetric(redisDesc, prometheus.GaugeValue, number(h.RedisUp))
	out <- prometheus.MustNewConstMetric(channelDesc, prometheus.GaugeValue, number(h.SubscriptionUp))
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Watch adds a namespace's figures.
func (m *Metrics) Watch(namespace string, stats func() cache.Stats) {
	m.stats.mu.Lock()
	defer m.stats.mu.Unlock()
	m.stats.namespaces[namespace] = stats
}

// Namespace times one namespace's reads and loads.
func (m *Metrics) Namespace(name string) cache.Observer {
	o := &observer{load: m.loads.WithLabelValues(name)}
	for source := range cache.Source(cache.Sources) {
		if source != cache.FromL2 {
			o.read[source] = m.reads.WithLabelValues(name, source.String())
		}
	}
	return o
}

type observer struct {
	read [cache.Sources]prometheus.Observer
	load prometheus.Observer
}

func (o *observer) Read(source cache.Source, took time.Duration) {
	if h := o.read[source]; h != nil {
		h.Observe(took.Seconds())
	}
}

func (o *observer) Load(took time.Duration) { o.load.Observe(took.Seconds()) }

// statsCollector turns the counters that caches keep into series at a scrape.
type statsCollector struct {
	mu         sync.Mutex
	namespaces map[string]func() cache.Stats // guarded by mu
}

// Describe describes nothing: the series depend on the namespaces.
func (c *statsCollector) Describe(chan<- *prometheus.Desc) {}

// Collect reads every namespace's figures.
func (c *statsCollector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, stats := range c.namespaces {
		collect(out, name, stats())
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{namespaceLabel}, labels...), nil)
}

var (
	readsDesc     = desc("cocache_reads_total", "Reads by where the answer came from and what it was.", "source", "outcome")
	degradedDesc  = desc("cocache_degraded_reads_total", "Answers that bypassed L1, by why.", "reason")
	loadsDesc     = desc("cocache_loads_total", "Loader calls by how they ended.", "outcome")
	leasesDesc    = desc("cocache_leases_total", "Leases by what became of them.", "outcome")
	fillsDesc     = desc("cocache_fills_total", "Loaded values sent to L1, by what it said.", "outcome")
	writesDesc    = desc("cocache_writes_total", "Writes by operation and outcome.", "op", "outcome")
	refreshesDesc = desc("cocache_refreshes_total", "Background refreshes by outcome.", "outcome")
	resetsDesc    = desc("cocache_resets_total", "Times that L2 was emptied, by cause.", "cause")
	droppedDesc   = desc("cocache_invalidations_dropped_total", "Invalidations given up; other instances may serve the old value.")
	pendingDesc   = desc("cocache_invalidations_pending", "Failed invalidations that are tried again.")
	messagesDesc  = desc("cocache_invalidations_total", "Invalidation messages.", "direction")
	inFlightDesc  = desc("cocache_loads_in_flight", "Loader calls under way.")
	queueDesc     = desc("cocache_load_queue_length", "Loads that wait for a place.")
	waitersDesc   = desc("cocache_load_waiters", "Readers that wait for an answer.")
	entriesDesc   = desc("cocache_l2_entries", "Copies in L2.")
	bytesDesc     = desc("cocache_l2_bytes", "Bytes of keys and values in L2.")
	evictedDesc   = desc("cocache_l2_evictions_total", "Copies that gave way for room.")
)

func collect(out chan<- prometheus.Metric, namespace string, s cache.Stats) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, value, append([]string{namespace}, labels...)...)
	}
	for words, n := range s.Reads {
		send(readsDesc, prometheus.CounterValue, float64(n), words[0], words[1])
	}
	for words, n := range s.Writes {
		send(writesDesc, prometheus.CounterValue, float64(n), words[0], words[1])
	}
	for _, group := range []struct {
		desc   *prometheus.Desc
		counts map[string]uint64
	}{
		{degradedDesc, s.Degraded}, {loadsDesc, s.Loads}, {leasesDesc, s.Leases}, {fillsDesc, s.Fills},
		{refreshesDesc, s.Refreshes}, {resetsDesc, s.Resets},
		{messagesDesc, map[string]uint64{"sent": s.Sent, "received": s.Received}},
	} {
		for word, n := range group.counts {
			send(group.desc, prometheus.CounterValue, float64(n), word)
		}
	}
	send(droppedDesc, prometheus.CounterValue, float64(s.Dropped))
	send(evictedDesc, prometheus.CounterValue, float64(s.L2Evictions))
	for d, n := range map[*prometheus.Desc]float64{
		inFlightDesc: float64(s.LoadsInFlight), queueDesc: float64(s.LoadsQueued), waitersDesc: float64(s.Waiters),
		pendingDesc: float64(s.Pending),
		entriesDesc: float64(s.L2Entries), bytesDesc: float64(s.L2Bytes),
	} {
		send(d, prometheus.GaugeValue, n)
	}
}
