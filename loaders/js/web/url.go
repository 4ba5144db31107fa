package web

import (
	"errors"
	"regexp"
	"strings"

	"github.com/dop251/goja"
)

// address is a URL in the parts that the URL standard gives it. For schemes
// that are not special (those without a host of their own rules) the path is
// kept as it is written.
type address struct {
	scheme, user, password, host, port, path, query, fragment string

	special, opaque, hasQuery, hasFragment bool
}

var (
	schemePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
	errNoURL      = errors.New("invalid URL")
)

// defaultPort is that of a special scheme.
func defaultPort(scheme string) (string, bool) {
	switch scheme {
	case "http", "ws":
		return "80", true
	case "https", "wss":
		return "443", true
	case "ftp":
		return "21", true
	}
	return "", false
}

// parseAddress reads input, relative to base when there is one.
func parseAddress(input string, base *address) (address, error) {
	input = strings.TrimFunc(input, func(r rune) bool { return r <= ' ' })
	input = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(input)
	if m := schemePattern.FindString(input); m != "" {
		a := address{scheme: strings.ToLower(strings.TrimSuffix(m, ":"))}
		_, a.special = defaultPort(a.scheme)
		return a.absolute(input[len(m):])
	}
	if base == nil || base.opaque {
		return address{}, errNoURL
	}
	return base.relative(input)
}

func (a address) absolute(rest string) (address, error) {
	if !a.special && !strings.HasPrefix(rest, "/") {
		a.opaque = true
		rest = a.cutTail(rest)
		a.path = escape(rest, func(c byte) bool { return c < ' ' || c == 0x7f })
		return a, nil
	}
	if a.special {
		rest = "//" + strings.TrimLeft(rest, `/\`)
	}
	return a.hierarchical(rest)
}

// hierarchical reads what follows the scheme: //authority/path?query#fragment.
func (a address) hierarchical(rest string) (address, error) {
	rest = a.cutTail(rest)
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		end := strings.IndexAny(after, a.slashes())
		if end < 0 {
			end = len(after)
		}
		if err := a.setAuthority(after[:end]); err != nil {
			return address{}, err
		}
		rest = after[end:]
	}
	a.setPath(rest)
	return a, nil
}

func (a address) slashes() string {
	if a.special {
		return `/\`
	}
	return "/"
}

// relative reads a reference without a scheme.
func (a address) relative(input string) (address, error) {
	next := a
	next.query, next.hasQuery, next.fragment, next.hasFragment = "", false, "", false
	rest := next.cutTail(input)
	if a.special {
		rest = strings.ReplaceAll(rest, `\`, "/")
	}
	switch {
	case strings.HasPrefix(rest, "//"):
		next.user, next.password, next.host, next.port = "", "", "", ""
		tail := input[strings.IndexAny(input, `/\`):]
		return next.hierarchical("//" + tail[2:])
	case rest == "":
		if !next.hasQuery {
			next.query, next.hasQuery = a.query, a.hasQuery
		}
		return next, nil
	case strings.HasPrefix(rest, "/"):
		next.setPath(rest)
	default:
		next.setPath(a.path[:strings.LastIndex(a.path, "/")+1] + rest)
	}
	return next, nil
}

// cutTail takes query and fragment off.
func (a *address) cutTail(s string) string {
	s, fragment, ok := strings.Cut(s, "#")
	if ok {
		a.setFragment(fragment)
	}
	s, query, ok := strings.Cut(s, "?")
	if ok {
		a.setQuery(query)
	}
	return s
}

func (a *address) setFragment(s string) {
	a.hasFragment = true
	a.fragment = escape(s, func(c byte) bool { return c <= ' ' || c == 0x7f || strings.IndexByte("\"<>`", c) >= 0 })
}

func (a *address) setQuery(s string) {
	a.hasQuery = true
	a.query = escape(s, func(c byte) bool {
		return c <= ' ' || c == 0x7f || strings.IndexByte("\"#<>", c) >= 0 || a.special && c == '\''
	})
}

// setPath resolves `.` and `..` and escapes the rest.
func (a *address) setPath(s string) {
	if a.special {
		s = strings.ReplaceAll(s, `\`, "/")
	}
	parts := strings.Split(strings.TrimPrefix(s, "/"), "/")
	out := make([]string, 0, len(parts))
	for i, p := range parts {
		last := i == len(parts)-1
		switch strings.ReplaceAll(strings.ToLower(p), "%2e", ".") {
		case "..":
			out = out[:max(0, len(out)-1)]
			if last {
				out = append(out, "")
			}
		case ".":
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, escape(p, func(c byte) bool {
				return c <= ' ' || c == 0x7f || strings.IndexByte("\"#<>?`{}^", c) >= 0
			}))
		}
	}
	if s == "" && !a.special {
		a.path = ""
		return
	}
	a.path = "/" + strings.Join(out, "/")
}

func (a *address) setAuthority(s string) error {
	if at := strings.LastIndex(s, "@"); at >= 0 {
		user, password, _ := strings.Cut(s[:at], ":")
		a.user, a.password = escapeUser(user), escapeUser(password)
		s = s[at+1:]
	}
	return a.setHost(s, true)
}

func escapeUser(s string) string {
	return escape(s, func(c byte) bool { return c <= ' ' || c == 0x7f || strings.IndexByte("\"#<>?`{}/:;=@[\\]^|", c) >= 0 })
}

func (a address) hostPort() string {
	if a.port != "" {
		return a.host + ":" + a.port
	}
	return a.host
}

func (a address) String() string {
	var b strings.Builder
	b.WriteString(a.scheme + ":")
	if a.host != "" || a.special {
		b.WriteString("//")
		if a.user != "" || a.password != "" {
			b.WriteString(a.user)
			if a.password != "" {
				b.WriteString(":" + a.password)
			}
			b.WriteByte('@')
		}
		b.WriteString(a.hostPort())
	}
	b.WriteString(a.path)
	if a.hasQuery {
		b.WriteString("?" + a.query)
	}
	if a.hasFragment {
		b.WriteString("#" + a.fragment)
	}
	return b.String()
}

// set changes one part; false leaves the URL as it was.
func (a *address) set(part, v string) bool {
	switch part {
	case "protocol":
		s := strings.ToLower(strings.TrimSuffix(v, ":"))
		if _, special := defaultPort(s); !special || !a.special {
			return false
		}
		a.scheme = s
		return a.setPort(a.port) == nil
	case "username":
		a.user = escapeUser(v)
	case "password":
		a.password = escapeUser(v)
	case "host", "hostname":
		return !strings.ContainsAny(v, `/\?#@`) && a.setHost(v, part == "host" && strings.Contains(v, ":")) == nil
	case "port":
		return a.setPort(v) == nil
	case "pathname":
		a.setPath(v)
	case "search":
		v = strings.TrimPrefix(v, "?")
		a.setQuery(v)
		a.hasQuery = v != ""
	case "hash":
		v = strings.TrimPrefix(v, "#")
		a.setFragment(v)
		a.hasFragment = v != ""
	}
	return true
}

func (n natives) parseURL(c goja.FunctionCall) goja.Value {
	var base *address
	if text := c.Argument(1).String(); text != "" {
		b, err := parseAddress(text, nil)
		if err != nil {
			n.throw(err)
		}
		base = &b
	}
	a, err := parseAddress(c.Argument(0).String(), base)
	if err != nil {
		n.throw(err)
	}
	return n.parts(a)
}

func (n natives) setURL(c goja.FunctionCall) goja.Value {
	a, err := parseAddress(c.Argument(0).String(), nil)
	if err != nil || a.opaque && c.Argument(1).String() != "search" && c.Argument(1).String() != "hash" {
		return goja.Null()
	}
	if !a.set(c.Argument(1).String(), c.Argument(2).String()) {
		return goja.Null()
	}
	return n.parts(a)
}

func (n natives) parts(a address) goja.Value {
	prefixed := func(mark, s string) string {
		if s == "" {
			return ""
		}
		return mark + s
	}
	origin := "null"
	if a.special {
		origin = a.scheme + "://" + a.hostPort()
	}
	o := n.rt.NewObject()
	for _, p := range [...][2]string{
		{"href", a.String()}, {"origin", origin}, {"protocol", a.scheme + ":"}, {"username", a.user}, {"password", a.password},
		{"host", a.hostPort()}, {"hostname", a.host}, {"port", a.port}, {"pathname", a.path},
		{"search", prefixed("?", a.query)}, {"hash", prefixed("#", a.fragment)},
	} {
		_ = o.Set(p[0], p[1])
	}
	return o
}
