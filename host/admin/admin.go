// Package admin is what an operator and a load balancer ask: is the process
// alive, does it want traffic, and what has it done.
//
// Health and metrics need no token. Metric labels come from the configuration
// and from fixed lists of words, never from keys, paths or error texts, so the
// number of series does not grow with use.
package admin

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Status is a word of /readyz.
type Status string

const (
	Ready    Status = "ready"
	Degraded Status = "degraded" // serving without Redis: 200
	NotReady Status = "not-ready"
)

// Readiness is an answer of /readyz.
type Readiness struct {
	Status Status `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// Options of the handler.
type Options struct {
	Metrics *Metrics
	Ready   func(context.Context) Readiness
}

// New serves /livez, /readyz and /metrics; anything else is not found.
func New(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ready := o.Ready(r.Context())
		status := http.StatusOK
		if ready.Status == NotReady {
			status = http.StatusServiceUnavailable
		}
		answer(w, status, ready)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics.registry, promhttp.HandlerOpts{}))
	return mux
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) // the client's connection is all that can fail
}
