package capability

import (
	"fmt"
	"net/netip"
)

const (
	settingHTTP     = "loader.allow.http"
	settingNetworks = "loader.allow.networks"
)

// deniedError names what was refused and what would allow it.
type deniedError struct{ what, setting string }

func (e *deniedError) Error() string {
	if e.setting == "" {
		return fmt.Sprintf("%s: %v, and cannot be allowed", e.what, ErrDenied)
	}
	return fmt.Sprintf("%s: %v; %s would allow it", e.what, ErrDenied, e.setting)
}

func (e *deniedError) Unwrap() error { return ErrDenied }

// neverDialled holds link-local addresses and those at which clouds hand out
// the machine's credentials. They are refused even inside allowed networks.
var neverDialled = prefixes(
	"169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
)

// special4 is what is not public in IPv4.
var special4 = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
)

var (
	// global6 is all of IPv6 that can be public; what is refused within it
	// carries other addresses or is documentation.
	global6  = netip.MustParsePrefix("2000::/3")
	special6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// These end in an IPv4 address: local NAT64, v4-compatible, v4-translated.
	wrapping  = prefixes("64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
	teredo    = netip.MustParsePrefix("2001::/32")
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		out[i] = netip.MustParsePrefix(t)
	}
	return out
}

func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked()
	}
	return p.Masked()
}

// judge says whether an address may be dialled. An address that only wraps
// another one, as a translator does, is judged by the one that it reaches.
func (f *Fetcher) judge(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	denied := &deniedError{what: "dial " + a.String()}
	inner := embedded(a)
	if within(a, neverDialled) || a.IsLinkLocalMulticast() || inner.IsValid() && within(inner, neverDialled) {
		return denied
	}
	if within(a, f.networks) || inner.IsValid() && within(inner, f.networks) {
		return nil
	}
	if nat64.Contains(a) {
		a = inner
	}
	if isSpecial(a) {
		denied.setting = settingNetworks
		return denied
	}
	return nil
}

func isSpecial(a netip.Addr) bool {
	if a.Is4() {
		return within(a, special4)
	}
	return !global6.Contains(a) || within(a, special6)
}

func within(a netip.Addr, in []netip.Prefix) bool {
	for _, p := range in {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// embedded is the IPv4 address that an IPv6 address carries, if it does:
// NAT64, 6to4, Teredo, v4-compatible and v4-translated addresses.
func embedded(a netip.Addr) netip.Addr {
	if !a.Is6() {
		return netip.Addr{}
	}
	b := a.As16()
	last := netip.AddrFrom4([4]byte(b[12:16]))
	switch {
	case nat64.Contains(a), within(a, wrapping):
		return last
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	case teredo.Contains(a):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
	}
	return netip.Addr{}
}
