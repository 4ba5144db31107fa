package capability

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// origin is a scheme, a host and a port; the host's first label may be `*`.
type origin struct{ scheme, host, port string }

type origins []origin

func (o origin) String() string {
	s := o.scheme + "://"
	if strings.Contains(o.host, ":") {
		s += "[" + o.host + "]"
	} else {
		s += o.host
	}
	if o.port != defaultPort(o.scheme) {
		s += ":" + o.port
	}
	return s
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// originOf is the origin of an absolute http or https URL.
func originOf(u *url.URL) (origin, error) {
	o := origin{scheme: strings.ToLower(u.Scheme), host: strings.ToLower(u.Hostname()), port: u.Port()}
	if o.scheme != "http" && o.scheme != "https" {
		return origin{}, errors.New("a URL starts with http:// or https://")
	}
	if o.host == "" || u.Opaque != "" {
		return origin{}, errors.New("a URL names a host")
	}
	if a, err := netip.ParseAddr(o.host); err == nil {
		o.host = a.String()
	} else if i := strings.IndexFunc(o.host, notHost); i >= 0 {
		return origin{}, fmt.Errorf("host %.100q has a character that hosts do not have", o.host)
	}
	if o.port == "" {
		o.port = defaultPort(o.scheme)
	} else if n, err := strconv.ParseUint(o.port, 10, 16); err != nil || n == 0 {
		return origin{}, fmt.Errorf("port %.20q", o.port)
	} else {
		o.port = strconv.FormatUint(n, 10)
	}
	return o, nil
}

// notHost is true for what cannot stand in a name: names beyond ASCII are to
// be written as punycode, as they are in DNS.
func notHost(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_')
}

func parseOrigins(texts []string) (origins, error) {
	var out origins
	for _, text := range texts {
		o, err := parseOrigin(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		out = append(out, o)
	}
	return out, nil
}

func parseOrigin(text string) (origin, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || strings.ContainsAny(rest, "/?#@\\") {
		return origin{}, errors.New("an origin is scheme://host[:port], without a path")
	}
	base, wild := strings.CutPrefix(rest, "*.")
	if strings.Contains(base, "*") {
		return origin{}, errors.New("`*` stands only for the whole first label")
	}
	u, err := url.Parse(scheme + "://" + base)
	if err != nil {
		return origin{}, errors.New("an origin is scheme://host[:port]")
	}
	o, err := originOf(u)
	if err != nil {
		return origin{}, err
	}
	if wild {
		if last := o.host[strings.LastIndex(o.host, ".")+1:]; strings.Trim(last, "0123456789") == "" || strings.Contains(o.host, ":") {
			return origin{}, errors.New("`*` cannot stand for a part of an address")
		}
		o.host = "*." + o.host
	}
	return o, nil
}

func (os origins) match(o origin) bool {
	_, parent, _ := strings.Cut(o.host, ".")
	for _, a := range os {
		if a.scheme == o.scheme && a.port == o.port && (a.host == o.host || a.host == "*."+parent) {
			return true
		}
	}
	return false
}
