package web

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// badInHost cannot stand in a host; the last two may in a scheme that is not
// special.
const badInHost = "\x00\t\n\r #/:<>?@[\\]^|%\x7f"

func (a *address) setHost(s string, withPort bool) error {
	host, port := s, ""
	if i := strings.LastIndex(s, ":"); withPort && i >= 0 && !strings.Contains(s[i:], "]") {
		host, port = s[:i], s[i+1:]
	}
	host, err := parseHost(host, a.special)
	if err != nil {
		return err
	}
	if withPort {
		if err := a.setPort(port); err != nil {
			return err
		}
	}
	a.host = host
	return nil
}

func (a *address) setPort(s string) error {
	if s == "" {
		a.port = ""
		return nil
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || strings.HasPrefix(s, "+") {
		return errNoURL
	}
	a.port = strconv.FormatUint(n, 10)
	if d, _ := defaultPort(a.scheme); d == a.port {
		a.port = ""
	}
	return nil
}

func parseHost(s string, special bool) (string, error) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		ip, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		if err != nil || !ip.Is6() || ip.Zone() != "" || !strings.HasSuffix(inner, "]") {
			return "", errNoURL
		}
		return "[" + ip.String() + "]", nil
	}
	if !special {
		if strings.ContainsAny(s, badInHost[:len(badInHost)-2]) {
			return "", errNoURL
		}
		return escape(s, func(c byte) bool { return c < ' ' }), nil
	}
	host := strings.ToLower(string(unescape(s)))
	if host == "" || strings.ContainsAny(host, badInHost) {
		return "", errNoURL
	}
	for _, r := range host {
		if r > 0x7f {
			return "", fmt.Errorf("%w: write the host as punycode", errNoURL)
		}
	}
	return parseHost4(host)
}

// parseHost4 turns the many ways to write an IPv4 address into the usual one,
// so that what is compared and what is reached are the same.
func parseHost4(host string) (string, error) {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	last := parts[len(parts)-1]
	if _, err := parseNumber(last); err != nil && (last == "" || strings.Trim(last, "0123456789") != "") {
		return host, nil
	}
	if len(parts) > 4 {
		return "", errNoURL
	}
	var ip uint64
	for i, p := range parts {
		n, err := parseNumber(p)
		room := uint(8)
		if i == len(parts)-1 {
			room = uint(8 * (5 - len(parts)))
		}
		if err != nil || n>>room != 0 {
			return "", errNoURL
		}
		ip = ip<<room | n
	}
	return netip.AddrFrom4([4]byte{byte(ip >> 24), byte(ip >> 16), byte(ip >> 8), byte(ip)}).String(), nil
}

func parseNumber(s string) (uint64, error) {
	switch {
	case strings.HasPrefix(s, "0x"):
		if s == "0x" {
			return 0, nil
		}
		return strconv.ParseUint(s[2:], 16, 33)
	case len(s) > 1 && s[0] == '0':
		return strconv.ParseUint(s, 8, 33)
	}
	return strconv.ParseUint(s, 10, 33)
}
