package capability

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// hop is one request on the way through redirects.
type hop struct {
	url    *url.URL
	origin string
	method string
	header http.Header
	body   []byte
}

// ownHeaders are headers that the guest may not set, because they speak about
// this connection or would contradict the address that was judged.
var ownHeaders = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Host": true, "Content-Length": true, "Expect": true, "Http2-Settings": true,
}

var (
	token         = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	secretPattern = regexp.MustCompile(`\{\{secret:([^{}]*)\}\}`)
)

// firstHop checks a guest's request.
func (f *Fetcher) firstHop(r FetchRequest) (*hop, error) {
	u, origin, err := f.allowed(r.URL)
	if err != nil {
		return nil, err
	}
	method, err := checkMethod(r.Method)
	if err != nil {
		return nil, err
	}
	header, err := checkHeader(r.Header)
	if err != nil {
		return nil, err
	}
	return &hop{url: u, origin: origin, method: method, header: header, body: r.Body}, nil
}

// allowed parses an absolute URL and checks that its origin may be fetched.
func (f *Fetcher) allowed(text string) (*url.URL, string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, "", fmt.Errorf("fetch: %w: no URL", ErrBadRequest)
	}
	o, err := originOf(u)
	if err != nil {
		return nil, "", fmt.Errorf("fetch: %w: %w", ErrBadRequest, err)
	}
	if u.User != nil {
		return nil, "", fmt.Errorf("fetch %s: %w: a URL with user information; use a header", o, ErrBadRequest)
	}
	if !f.origins.match(o) {
		return nil, "", &deniedError{what: "fetch " + o.String(), setting: settingHTTP}
	}
	u.Fragment, u.RawFragment = "", ""
	return u, o.String(), nil
}

func checkMethod(method string) (string, error) {
	if method == "" {
		return http.MethodGet, nil
	}
	upper := strings.ToUpper(method)
	if !token.MatchString(method) || upper == http.MethodConnect || upper == http.MethodTrace || upper == "TRACK" {
		return "", fmt.Errorf("fetch: %w: method %.20q", ErrBadRequest, method)
	}
	switch upper {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions:
		return upper, nil
	}
	return method, nil
}

func checkHeader(in http.Header) (http.Header, error) {
	out := make(http.Header, len(in))
	for name, values := range in {
		key := http.CanonicalHeaderKey(name)
		if !token.MatchString(name) {
			return nil, fmt.Errorf("fetch: %w: header name %.40q", ErrBadRequest, name)
		}
		if ownHeaders[key] || strings.HasPrefix(key, "Proxy-") {
			return nil, fmt.Errorf("fetch: %w: header %s is the host's to set", ErrBadRequest, key)
		}
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n\x00") {
				return nil, fmt.Errorf("fetch: %w: value of header %s", ErrBadRequest, key)
			}
			out[key] = append(out[key], v)
		}
	}
	if _, ok := out["User-Agent"]; !ok {
		out.Set("User-Agent", "cocache-loader")
	}
	return out, nil
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// nextHop is where an answer points, if that is allowed. What proves who asks
// does not travel to another origin.
func (f *Fetcher) nextHop(h *hop, status int, location string) (*hop, error) {
	ref, err := h.url.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: redirected to what is no URL", h.origin)
	}
	u, origin, err := f.allowed(ref.String())
	if err != nil {
		return nil, fmt.Errorf("follow redirect of %s: %w", h.origin, err)
	}
	next := &hop{url: u, origin: origin, method: h.method, header: h.header.Clone(), body: h.body}
	if status == http.StatusSeeOther && h.method != http.MethodHead || status < http.StatusSeeOther && h.method == http.MethodPost {
		next.method, next.body = http.MethodGet, nil
		next.header.Del("Content-Type")
	}
	if origin != h.origin {
		next.dropCredentials()
	}
	return next, nil
}

func (h *hop) dropCredentials() {
	for name, values := range h.header {
		if name == "Authorization" || name == "Cookie" || secretPattern.MatchString(strings.Join(values, "\n")) {
			delete(h.header, name)
		}
	}
}

// secret is a FetchSecret that was checked.
type secret struct {
	value string
	only  origins // nil: every allowed one
}

func parseSecrets(in map[string]FetchSecret) (map[string]secret, error) {
	out := make(map[string]secret, len(in))
	for name, s := range in {
		if strings.ContainsAny(s.Value, "\r\n\x00") && s.Value != "" {
			return nil, fmt.Errorf("read loader.secrets.%s: a line break cannot stand in a header", name)
		}
		only, err := parseOrigins(s.Origins)
		if err != nil {
			return nil, fmt.Errorf("read loader.secrets.%s.origins: %w", name, err)
		}
		out[name] = secret{value: s.Value, only: only}
	}
	return out, nil
}

// expand is the header to send, secrets filled in.
func (f *Fetcher) expand(h *hop) (http.Header, error) {
	o, err := originOf(h.url)
	if err != nil {
		return nil, err
	}
	out := make(http.Header, len(h.header))
	for name, values := range h.header {
		for _, v := range values {
			v = secretPattern.ReplaceAllStringFunc(v, func(m string) string {
				n := secretPattern.FindStringSubmatch(m)[1]
				s, ok := f.secrets[n]
				if !ok || s.only != nil && !s.only.match(o) {
					err = &deniedError{what: "secret " + n + " for " + o.String(), setting: "loader.secrets." + n + ".origins"}
				}
				return s.value
			})
			out[name] = append(out[name], v)
		}
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}
