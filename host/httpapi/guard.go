package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// guard keeps web pages from reaching the API through a visitor's browser. The
// cross-site check alone does not stop a page whose own name is made to resolve
// to this host: to the browser that is the same site, and only Host tells.
type guard struct {
	loopback bool
	hosts    map[string]bool // in lower case
}

func newGuard(loopback bool, hosts []string) guard {
	g := guard{loopback: loopback, hosts: map[string]bool{"localhost": true}}
	for _, host := range hosts {
		g.hosts[strings.ToLower(host)] = true
	}
	return g
}

func (g guard) check(r *http.Request) *problem {
	if g.loopback && !g.local(r.Host) {
		return &problem{status: http.StatusMisdirectedRequest, code: "misdirected-host",
			detail: "Host is neither localhost nor a loopback address nor one of the listener's hosts"}
	}
	if crossSite(r) {
		return &problem{status: http.StatusForbidden, code: "cross-origin",
			detail: "requests from pages of other sites are refused"}
	}
	return nil
}

// local reports whether host may stand in Host on a loopback listener. No host
// at all comes from old clients only, never from a browser.
func (g guard) local(host string) bool {
	host = strings.ToLower(host)
	name := hostname(host)
	if host == "" || g.hosts[host] || g.hosts[name] {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}

// hostname is host without its port and the brackets of an IPv6 address.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// crossSite reports whether a browser says that another site's page asks.
func crossSite(r *http.Request) bool {
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return true
		}
	}
	for _, origin := range r.Header.Values("Origin") {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return true
		}
	}
	return false
}
