package capability

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/cocache/cocache/runtime/loader"
)

const (
	defaultMaxRequests = 16
	defaultMaxBytes    = 8 << 20
	maxRedirects       = 10
	maxHeaderBytes     = 256 << 10
	dialTimeout        = 10 * time.Second
	idleTimeout        = 30 * time.Second
)

// ErrBadRequest: the guest asked for something that is no HTTP request, such
// as a relative URL or a header that is the host's to set.
var ErrBadRequest = errors.New("bad request")

// errRedirect: the guest asked for redirects to be errors, and met one.
var errRedirect = errors.New("redirected, which the request forbids")

// FetchConfig is what a namespace's loader may fetch. Its zero value allows
// nothing.
type FetchConfig struct {
	// Origins are scheme://host[:port]; the whole first label of a host may be
	// `*`, which stands for exactly one label.
	Origins []string
	// Networks are the addresses that may be dialled although they are not
	// public. Link-local and metadata addresses stay refused.
	Networks []netip.Prefix
	// MaxRequests bounds the requests of one load, each redirect that is
	// followed being one; 0 is 16.
	MaxRequests int
	// MaxBytes bounds one response's body, after decompression; 0 is 8MiB.
	MaxBytes int64
	// Secrets may be named in header values as {{secret:name}}.
	Secrets map[string]FetchSecret
}

// FetchSecret is a text that the host puts into a guest's request, so that
// the guest need not know it.
type FetchSecret struct {
	Value string
	// Origins are those that may get it, of the form of FetchConfig.Origins;
	// empty stands for every origin that may be fetched.
	Origins []string
}

// Fetcher performs the HTTP requests of one namespace's loader. It keeps
// connections of its own, uses no proxy and no cookies, and judges each origin,
// also those it is redirected to, and each address that it dials. The zero
// value and nil deny everything.
type Fetcher struct {
	origins     origins
	networks    []netip.Prefix
	maxRequests int
	maxBytes    int64
	secrets     map[string]secret
	transport   *http.Transport
}

// NewFetcher checks the configuration. Close the Fetcher to let go of its
// idle connections.
func NewFetcher(c FetchConfig) (*Fetcher, error) {
	if c.MaxRequests < 0 || c.MaxBytes < 0 {
		return nil, errors.New("create fetcher: negative limit")
	}
	allowed, err := parseOrigins(c.Origins)
	if err != nil {
		return nil, fmt.Errorf("read loader.allow.http: %w", err)
	}
	secrets, err := parseSecrets(c.Secrets)
	if err != nil {
		return nil, err
	}
	f := &Fetcher{origins: allowed, secrets: secrets, maxRequests: c.MaxRequests, maxBytes: c.MaxBytes}
	for _, p := range c.Networks {
		f.networks = append(f.networks, unmapPrefix(p))
	}
	if f.maxRequests == 0 {
		f.maxRequests = defaultMaxRequests
	}
	if f.maxBytes == 0 {
		f.maxBytes = defaultMaxBytes
	}
	f.transport = f.newTransport()
	return f, nil
}

func (f *Fetcher) newTransport() *http.Transport {
	// Control runs after names were resolved and before the connection is
	// made, so a name cannot change its address after the judgement.
	dialer := &net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("read address %s: %w", address, err)
		}
		return f.judge(ap.Addr())
	}}
	return &http.Transport{
		Proxy: nil, DialContext: dialer.DialContext, ForceAttemptHTTP2: true, IdleConnTimeout: idleTimeout,
		TLSHandshakeTimeout: dialTimeout, MaxResponseHeaderBytes: maxHeaderBytes, MaxIdleConnsPerHost: 8,
	}
}

// Close closes idle connections. Requests under way are not touched; their
// contexts end them.
func (f *Fetcher) Close() error {
	if f != nil && f.transport != nil {
		f.transport.CloseIdleConnections()
	}
	return nil
}

// Begin is the budget of one load.
func (f *Fetcher) Begin() *FetchBudget { return &FetchBudget{f: f} }

// FetchBudget counts the requests of one load. It may be used by several
// goroutines at once.
type FetchBudget struct {
	f    *Fetcher
	mu   sync.Mutex
	used int // guarded by mu
}

func (b *FetchBudget) take() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used >= b.f.maxRequests {
		return &loader.Error{
			Kind: loader.Limited, Limit: "loader.limits.max-http-requests", Value: strconv.Itoa(b.f.maxRequests),
			Message: "one request too many",
		}
	}
	b.used++
	return nil
}

// Redirect says what to do with an answer that points elsewhere.
type Redirect uint8

const (
	// Follow goes there, when that origin is allowed.
	Follow Redirect = iota
	// Manual hands out the redirecting answer.
	Manual
	// Refuse makes it an error.
	Refuse
)

// FetchRequest is one request of a guest.
type FetchRequest struct {
	// Method is GET when empty.
	Method string
	// URL is absolute, http or https, without user information.
	URL      string
	Header   http.Header
	Body     []byte
	Redirect Redirect
}

// FetchResponse is a whole response.
type FetchResponse struct {
	Status int
	// URL is the one that answered, after redirects.
	URL    string
	Header http.Header
	Body   []byte
}

// Do performs a request. It fails with ErrDenied when the configuration does
// not allow it, with ErrBadRequest when it is none, with a *loader.Error of
// kind Limited when a limit is hit, and else with what the network said.
func (b *FetchBudget) Do(ctx context.Context, r FetchRequest) (FetchResponse, error) {
	if b.f == nil || b.f.transport == nil {
		return FetchResponse{}, &deniedError{what: "fetch", setting: settingHTTP}
	}
	h, err := b.f.firstHop(r)
	if err != nil {
		return FetchResponse{}, err
	}
	for n := 0; ; n++ {
		if err := b.take(); err != nil {
			return FetchResponse{}, err
		}
		resp, next, err := b.f.roundTrip(ctx, h, r.Redirect)
		if err != nil || next == nil {
			return resp, err
		}
		if n == maxRedirects {
			return FetchResponse{}, fmt.Errorf("fetch %s: redirected more than %d times", h.origin, maxRedirects)
		}
		h = next
	}
}

// roundTrip sends one hop and answers either a response or the hop to follow.
func (f *Fetcher) roundTrip(ctx context.Context, h *hop, mode Redirect) (FetchResponse, *hop, error) {
	header, err := f.expand(h)
	if err != nil {
		return FetchResponse{}, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, h.method, h.url.String(), bytes.NewReader(h.body))
	if err != nil {
		return FetchResponse{}, nil, fmt.Errorf("fetch %s: %w: %w", h.origin, ErrBadRequest, err)
	}
	req.Header = header
	resp, err := f.transport.RoundTrip(req)
	if err != nil {
		return FetchResponse{}, nil, fetchError(h.origin, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if location := resp.Header.Get("Location"); location != "" && isRedirect(resp.StatusCode) && mode != Manual {
		if mode == Refuse {
			return FetchResponse{}, nil, fmt.Errorf("fetch %s: %w", h.origin, errRedirect)
		}
		next, err := f.nextHop(h, resp.StatusCode, location)
		return FetchResponse{}, next, err
	}
	body, err := f.readBody(resp)
	if err != nil {
		return FetchResponse{}, nil, fetchError(h.origin, err)
	}
	return FetchResponse{Status: resp.StatusCode, URL: h.url.String(), Header: resp.Header, Body: body}, nil, nil
}

func (f *Fetcher) readBody(resp *http.Response) ([]byte, error) {
	tooLong := &loader.Error{
		Kind: loader.Limited, Limit: "loader.limits.max-http-bytes", Value: SizeText(f.maxBytes), Message: "the response is longer",
	}
	if resp.ContentLength > f.maxBytes && resp.Request.Method != http.MethodHead {
		return nil, tooLong
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, f.maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	if int64(len(body)) > f.maxBytes {
		return nil, tooLong
	}
	return body, nil
}

// fetchError keeps what a caller can act on and drops the layers of the
// dialler around it.
func fetchError(origin string, err error) error {
	var denied *deniedError
	if errors.As(err, &denied) {
		return denied
	}
	var limit *loader.Error
	if errors.As(err, &limit) {
		return limit
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("fetch %s: %w", origin, err)
}

// SizeText is a number of bytes as it is written in a configuration: 8MiB.
func SizeText(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}
