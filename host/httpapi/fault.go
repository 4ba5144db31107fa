package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/cocache/cocache/runtime/cache"
	"github.com/cocache/cocache/runtime/loader"
	"github.com/cocache/cocache/runtime/policy"
)

// gone reports whether err is only that the client did not wait.
func gone(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
}

// readFault is the problem of a read that failed. What is nothing else came
// from a loader written in Go, as it was.
func readFault(ctx context.Context, err error) *problem {
	if p := fault(ctx, err); p != nil {
		return p
	}
	return &problem{status: http.StatusBadGateway, code: "loader-failed", detail: "the loader failed",
		cause: err, level: slog.LevelWarn}
}

// faultOf is the problem of what failed without a loader.
func faultOf(ctx context.Context, err error) *problem {
	if p := fault(ctx, err); p != nil {
		return p
	}
	return &problem{status: http.StatusInternalServerError, code: "internal", detail: "this should not happen; the log knows more",
		cause: err, level: slog.LevelError}
}

// fault is the problem of an error that the cache or a loader documents; nil
// for any other. What Redis said stays in the log: it names addresses.
func fault(ctx context.Context, err error) *problem {
	var (
		failure    *loader.Error
		overloaded *cache.OverloadedError
		timeout    *cache.LoadTimeoutError
		read       *cache.ReadError
		write      *cache.WriteError
		invalid    *cache.InvalidError
	)
	switch {
	case gone(ctx, err):
		return &problem{status: statusGone, code: "client-gone", cause: err, level: slog.LevelDebug}
	case errors.As(err, &failure):
		return loaderFault(failure)
	case errors.As(err, &overloaded):
		return &problem{status: http.StatusServiceUnavailable, code: "overloaded", detail: overloaded.Error(),
			retryAfter: atLeastSecond(overloaded.RetryAfter)}
	case errors.As(err, &timeout):
		return &problem{status: http.StatusGatewayTimeout, code: "load-timeout", detail: timeout.Error(),
			limit: "loads.timeout", value: policy.Text(timeout.Timeout)}
	case errors.As(err, &read):
		return &problem{status: http.StatusServiceUnavailable, code: "l1-unavailable", detail: "Redis could not be read",
			cause: err, level: slog.LevelDebug}
	case errors.As(err, &write):
		return writeFault(write)
	case errors.As(err, &invalid):
		return invalidFault(invalid)
	case errors.Is(err, cache.ErrRecursion):
		return &problem{status: http.StatusBadGateway, code: "loader-failed", detail: cache.ErrRecursion.Error()}
	case errors.Is(err, cache.ErrClosed):
		return draining()
	case ctx.Err() != nil: // a deadline that the server set
		return &problem{status: http.StatusGatewayTimeout, code: "load-timeout", detail: "the request took too long",
			cause: err, level: slog.LevelDebug}
	}
	return nil
}

// loaderFault is a tenant's failure. A loader's text is its author's to answer
// for, but that about a refused key: it can hardly help quoting the key.
func loaderFault(e *loader.Error) *problem {
	p := &problem{detail: loader.Clean(e.Error()), loaderCode: e.Code, limit: e.Limit, value: e.Value}
	switch e.Kind {
	case loader.Limited:
		p.status, p.code = http.StatusBadGateway, "loader-limit"
	case loader.TimedOut:
		p.status, p.code = http.StatusGatewayTimeout, "load-timeout"
	case loader.Retry:
		p.status, p.code, p.retryAfter = http.StatusServiceUnavailable, "loader-retry", atLeastSecond(e.After)
	case loader.BadKey:
		p.status, p.code, p.detail = http.StatusBadRequest, "invalid-key", "the loader cannot take this key"
	default:
		p.status, p.code = http.StatusBadGateway, "loader-failed"
	}
	return p
}

func writeFault(e *cache.WriteError) *problem {
	detail := "Redis did not take the write"
	if e.OutcomeUnknown {
		detail = "The write may have been carried out, or not, or not have been told to everybody"
	}
	return &problem{status: http.StatusServiceUnavailable, code: "write-failed", detail: detail,
		outcomeUnknown: &e.OutcomeUnknown, cause: e, level: slog.LevelDebug}
}

func invalidFault(e *cache.InvalidError) *problem {
	p := &problem{status: http.StatusBadRequest, detail: e.Error()}
	switch e.What {
	case "key":
		p.code = "invalid-key"
	case "ttl":
		p.code = "invalid-ttl"
	case "content-type":
		p.status, p.code = http.StatusUnsupportedMediaType, "unsupported-media-type"
	default:
		p.code = "invalid-value"
		if e.Limit != "" {
			p.status, p.code, p.limit, p.value = http.StatusRequestEntityTooLarge, "value-too-large", e.Limit, e.Value
		}
	}
	return p
}

// atLeastSecond makes a pause that was not said one that can be.
func atLeastSecond(d time.Duration) time.Duration { return max(d, time.Second) }
