package config

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/cocache/cocache/host/config/document"
)

// maxUnixPath is what a socket address holds on Linux.
const maxUnixPath = 107

// listenAddress refuses addresses that others can reach, as long as there is
// nothing that tells friend from foe.
func listenAddress(s string) (string, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if !strings.HasPrefix(path, "/") {
			return "", fmt.Errorf("%q: a socket's path starts with /, for example unix:/run/cocache.sock", s)
		}
		if len(path) > maxUnixPath {
			return "", fmt.Errorf("a socket's path has at most %d bytes, this one %d", maxUnixPath, len(path))
		}
		return s, nil
	}
	host, err := hostPort(s, 0)
	if err != nil {
		return "", err
	}
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
		return "", fmt.Errorf("%q can be reached from elsewhere, and there is no authentication yet: use 127.0.0.1, [::1], localhost or unix:/path", s)
	}
	return s, nil
}

func redisAddress(s string) (string, error) {
	host, err := hostPort(s, 1)
	if err == nil && host == "" {
		err = fmt.Errorf("%q names no host", s)
	}
	return s, err
}

func hostPort(s string, least int) (host string, err error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("%q is not host:port", s)
	}
	if n, err := strconv.Atoi(port); err != nil || !digits.MatchString(port) || n < least || n > 65535 {
		return "", fmt.Errorf("%q: the port must be a number between %d and 65535", s, least)
	}
	return host, nil
}

var prefixPattern = regexp.MustCompile(`^[A-Za-z0-9:_.-]{0,64}$`)

func keyPrefix(s string) (string, error) {
	if !prefixPattern.MatchString(s) {
		return "", fmt.Errorf("%q is not a prefix: letters, digits and : _ . - only, at most 64 characters", s)
	}
	return s, nil
}

// checkRedis compares the fields with the mode.
func (r *reader) checkRedis(n *document.Node, c *Redis) {
	if r.failed[n.Get("mode")] {
		return
	}
	addresses := n.Get("addresses")
	switch {
	case c.Embedded():
		for _, name := range []string{"addresses", "db", "username", "password", "tls"} {
			if f := n.Get(name); f != nil {
				r.failKey(f, "not with mode embedded, where Redis is inside this process")
			}
		}
		return
	case addresses == nil:
		r.Add(n.Key, document.Join(n.Path, "addresses"), "is missing: name one, or write mode: embedded for a Redis inside this process")
	case addresses.Kind == document.List && len(addresses.Items) == 0:
		r.fail(addresses, "is empty: name one, or write mode: embedded for a Redis inside this process")
	case c.Mode == Standalone && len(c.Addresses) > 1:
		r.fail(addresses, "a standalone Redis has one address, here are %d", len(c.Addresses))
	}
	if db := n.Get("db"); c.Mode == Cluster && c.DB != 0 {
		r.fail(db, "a cluster has only database 0")
	}
	if ca := n.Get("tls", "ca-file"); ca != nil && c.TLS.Enabled && !r.failed[ca] {
		r.readCA(ca, &c.TLS)
	}
}

func (r *reader) readCA(n *document.Node, t *TLS) {
	if t.CAFile == "" {
		return
	}
	data, err := readFile(resolve(r.dir, t.CAFile), maxExpansion)
	if err != nil {
		r.fail(n, "file %s: %s", t.CAFile, err)
		return
	}
	if !x509.NewCertPool().AppendCertsFromPEM(data) {
		r.fail(n, "file %s: holds no certificate in PEM", t.CAFile)
		return
	}
	t.CA = data
}

var headerPattern = regexp.MustCompile(`^[!-~]([ -~]*[!-~])?$`)

func cacheControl(s string) (string, error) {
	if !headerPattern.MatchString(s) {
		return "", fmt.Errorf("%q cannot be a header's value: one line of ASCII, for example no-store", s)
	}
	return s, nil
}

var hostPattern = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// origin is scheme://host[:port].
func origin(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%q is not an origin: write http or https://host[:port]", s)
	}
	if u.User != nil {
		return "", fmt.Errorf("an origin has no user or password: write %s://%s", u.Scheme, u.Host)
	}
	if u.Path != "" || u.RawQuery != "" || u.Fragment != "" || s != u.Scheme+"://"+u.Host {
		return "", fmt.Errorf("%q is more than an origin: write %s://%s", s, u.Scheme, u.Host)
	}
	if !originHost(u.Hostname()) {
		return "", fmt.Errorf("%q: not a host; * stands only for the whole first label, as in https://*.example.com", s)
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if _, err := hostPort("h:"+port, 1); err != nil {
			return "", fmt.Errorf("%q: the port must be a number between 1 and 65535", s)
		}
	}
	return s, nil
}

func originHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	last := host[strings.LastIndex(host, ".")+1:]
	partOfAddress := strings.HasPrefix(host, "*") && strings.Trim(last, "0123456789") == ""
	return hostPattern.MatchString(host) && !partOfAddress
}

func network(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("%q is not a network: write for example 10.0.0.0/8", s)
	}
	if p != p.Masked() {
		return p, fmt.Errorf("%q has bits beyond its length: write %s", s, p.Masked())
	}
	return p, nil
}
