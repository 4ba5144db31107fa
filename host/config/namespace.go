package config

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cocache/cocache/host/config/document"
	"github.com/cocache/cocache/runtime/policy"
)

// types of namespaces; the first is the one that this version offers.
var types = []string{"cache", "versioned-cache", "store", "versioned-store", "set-store", "join"}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,62}$`)

// readNamespaces comes last: a namespace takes from defaults and limits.
func (r *reader) readNamespaces(c *Config) {
	common := r.readDefaults()
	n := r.namespaces
	if n == nil || !r.isMapping(n) {
		return
	}
	if len(n.Entries) == 0 {
		r.failKey(n, "has nothing under it: name at least one namespace")
	}
	for _, e := range n.Entries {
		if !namePattern.MatchString(e.Name) {
			r.failKey(e.Value, "%q is not a namespace's name: a to z, 0 to 9, then also _ . -, at most 63 characters", e.Name)
		}
		if ns, ok := r.namespace(e, common, c.Limits.Limits); ok {
			c.Namespaces = append(c.Namespaces, ns)
		}
	}
	slices.SortFunc(c.Namespaces, func(a, b Namespace) int { return cmp.Compare(a.Name, b.Name) })
}

// readDefaults checks the defaults by themselves, whether or not a namespace
// takes them, and leaves out what namespaces must not take.
func (r *reader) readDefaults() *document.Node {
	n := r.defaults
	if n == nil {
		return nil
	}
	r.section(n, namespaceDefaults(newNamespace("", policy.Policy{})))
	if n.Kind != document.Mapping {
		return nil
	}
	common := n.Without("type", "loader")
	if l := n.Get("loader"); l != nil && l.Kind == document.Mapping {
		common.Entries = append(common.Entries, document.Entry{Name: "loader", Value: l.Without("wasm", "js")})
	}
	return common
}

// newNamespace has the defaults that the policy does not own. The policy's own
// are filled in after reading: some depend on what was read.
func newNamespace(name string, p policy.Policy) *Namespace {
	return &Namespace{Name: name, Type: types[0], CacheControl: "no-store", Policy: p}
}

func inherited(n *document.Node) bool { return strings.HasPrefix(n.Path, "defaults.") }

func (r *reader) namespace(e document.Entry, common *document.Node, limits policy.Limits) (Namespace, bool) {
	n := e.Value
	if !r.isMapping(n) || r.otherType(n) {
		return Namespace{}, false
	}
	ns := newNamespace(e.Name, policy.Policy{Limits: limits})
	if common != nil && n.Get("loader") == nil {
		common = common.Without("loader")
	}
	n = n.Merge(common)
	r.section(n, namespaceFields(ns))
	ns.Policy = ns.Policy.WithDefaults()
	for _, f := range ns.Policy.Validate() {
		r.relation(n, f.Path, f.Message)
	}
	if l := ns.Loader; l != nil {
		r.loaderTimeout(n, l, ns.Policy)
	}
	return *ns, true
}

// otherType refuses a type that there is no room for yet. Its fields are not
// looked at: they are right for that type.
func (r *reader) otherType(n *document.Node) bool {
	t := n.Get("type")
	if t == nil || t.Kind != document.Scalar || !slices.Contains(types[1:], t.Text) {
		return false
	}
	r.fail(t, "%s is not offered by this version: only cache is", t.Text)
	return true
}

// defaultTimeout of one call, which the whole load contains.
const defaultTimeout = 2 * time.Second

func (r *reader) loaderTimeout(n *document.Node, l *Loader, p policy.Policy) {
	if l.Limits.Timeout == 0 {
		l.Limits.Timeout = min(defaultTimeout, p.Loads.Timeout)
	}
	if l.Limits.Timeout > p.Loads.Timeout {
		r.relation(n, "loader.limits.timeout", policy.Text(l.Limits.Timeout)+
			" is over loads.timeout ("+policy.Text(p.Loads.Timeout)+")")
	}
}

// related are the fields that another is compared with.
var related = map[string]string{
	"ttl":                   "max-ttl",
	"refresh-window":        "ttl",
	"lease-poll.min":        "lease-poll.max",
	"loader.limits.timeout": "loads.timeout",
}

// relation reports a field that does not go with another. Either may come from
// defaults or not be written at all: the place is where the namespace has its
// part in it.
func (r *reader) relation(ns *document.Node, path, message string) {
	own := ns.Get(strings.Split(path, ".")...)
	var other *document.Node
	if name := related[path]; name != "" {
		other = ns.Get(strings.Split(name, ".")...)
	}
	if r.failed[own] || r.failed[other] {
		return // a field that could not be read was compared as its default
	}
	full := document.Join(ns.Path, path)
	otherIsOwn := other != nil && !inherited(other)
	switch {
	case own != nil && (!inherited(own) || !otherIsOwn):
		r.fail(own, "%s", message)
	case own != nil:
		r.Add(other.At, full, "%s; %s comes from defaults in line %d", message, path, own.At.Line)
	case other != nil:
		r.Add(other.At, full, "%s; %s is not written and has its default", message, path)
	default:
		r.Add(ns.Key, full, "%s", message)
	}
}
