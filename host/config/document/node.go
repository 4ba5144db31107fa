// Package document reads a YAML file into nodes that know where they stand,
// and collects what is wrong with it.
//
// It owns what YAML is allowed to be here: one document, no key twice, no
// anchors, tags or merge keys, and every scalar the text that was written. It
// owns how a fault looks: its place, the line with a caret, and no secret in
// it. It knows no field of any file.
package document

// Kind says what a node is.
type Kind uint8

const (
	Null Kind = iota
	Scalar
	List
	Mapping
	Broken // a fault was noted already; to be read as nothing
)

func (k Kind) String() string {
	return [...]string{"empty", "a single value", "a list", "a mapping", "broken"}[k]
}

// Node is a value of the file with its place. Scalars are the text written:
// what YAML would make of it (false, 83, 1000) is not looked at.
type Node struct {
	Kind    Kind
	Path    string   // as in faults, e.g. "namespaces.users.ttl"
	At      Position // of the value, or of its key when there is no value
	Key     Position // of the key, or of the value when there is no key
	Text    string   // of a Scalar
	Items   []*Node  // of a List
	Entries []Entry  // of a Mapping; no name twice
}

// Entry is one key of a mapping.
type Entry struct {
	Name  string
	Value *Node
}

// Get walks down a path of keys; nil when the file does not say it.
func (n *Node) Get(path ...string) *Node {
	for _, name := range path {
		if n == nil || n.Kind != Mapping {
			return nil
		}
		var next *Node
		for _, e := range n.Entries {
			if e.Name == name {
				next = e.Value
			}
		}
		n = next
	}
	return n
}

// Without is the mapping with some of its keys left out.
func (n *Node) Without(names ...string) *Node {
	c := *n
	c.Entries = nil
next:
	for _, e := range n.Entries {
		for _, name := range names {
			if e.Name == name {
				continue next
			}
		}
		c.Entries = append(c.Entries, e)
	}
	return &c
}

// Merge lays n over defaults: mappings are merged key by key, anything else
// in n wins as a whole. What is taken over keeps its place and path.
func (n *Node) Merge(defaults *Node) *Node {
	if n.Kind != Mapping || defaults == nil || defaults.Kind != Mapping {
		return n
	}
	m := *n
	m.Entries = nil
	for _, e := range n.Entries {
		m.Entries = append(m.Entries, Entry{e.Name, e.Value.Merge(defaults.Get(e.Name))})
	}
	for _, e := range defaults.Entries {
		if n.Get(e.Name) == nil {
			m.Entries = append(m.Entries, e)
		}
	}
	return &m
}

// Join is the path of a key below another path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
