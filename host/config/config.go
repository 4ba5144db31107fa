// Package config reads a configuration file: strict YAML in, plain structs
// with every default filled in out.
//
// It owns the names of the fields, their kinds and defaults, and the relations
// between them. It finds every fault at once and says where each stands; what
// it returns is complete and sound, with the loaders' files read and their
// checksums compared. A field it does not know is a fault: one that is
// accepted and does nothing would be a lie. It opens no listener, speaks to no
// Redis and compiles no loader.
package config

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cocache/cocache/host/config/document"
	"github.com/cocache/cocache/runtime/policy"
)

// Error holds every Fault of a file.
type (
	Error = document.Error
	Fault = document.Fault
)

// Config is a sound configuration.
type Config struct {
	Listen     Listen
	Redis      Redis
	Limits     Limits
	Shutdown   Shutdown
	Readiness  Readiness
	Namespaces []Namespace // by name; at least one
	// Warnings are what is allowed and better done otherwise.
	Warnings []Fault
}

// Listen says where the service takes requests.
type Listen struct{ HTTP Listener }

// Listener is one address: host:port or unix:/path.
type Listener struct{ Address string }

// Mode is how the nodes of Redis stand together.
type Mode string

const (
	Auto       Mode = "auto" // standalone or cluster, as the node says
	Standalone Mode = "standalone"
	Cluster    Mode = "cluster"
	Embedded   Mode = "embedded" // in this process, gone with it
)

// Redis says where L1 is.
type Redis struct {
	Mode           Mode
	Addresses      []string // host:port; none when embedded
	DB             int
	Username       string
	Password       string
	TLS            TLS
	KeyPrefix      string
	CommandTimeout time.Duration
	Heartbeat      time.Duration // between two signs of life on the invalidation channel
}

// Embedded is true when the process brings its own Redis.
func (r Redis) Embedded() bool { return r.Mode == Embedded }

// TLS of the connection to Redis.
type TLS struct {
	Enabled    bool
	CAFile     string // as written; empty for the system's authorities
	CA         []byte // its content, PEM; read when enabled
	ServerName string
}

// Limits bound what one request may carry.
type Limits struct {
	policy.Limits
	MaxBatchBytes int64
}

// Shutdown is how the process ends.
type Shutdown struct {
	Delay   time.Duration // not ready, and still serving
	Timeout time.Duration // for requests under way
}

// Readiness says when the process asks for traffic.
type Readiness struct{ RequireRedis bool }

// Namespace is one set of keys with its policy and source.
type Namespace struct {
	Name         string
	Type         string // "cache"
	Policy       policy.Policy
	CacheControl string  // of answers 200 and 304
	Loader       *Loader // nil: the source is outside
}

// Engine is what runs a loader.
type Engine string

const (
	Wasm Engine = "wasm"
	JS   Engine = "js"
)

// Loader is a namespace's source.
type Loader struct {
	Engine Engine
	File   string // resolved; empty for an inline script
	// Name stands for the source in messages: the file as written, or a word
	// for an inline script.
	Name          string
	Source        []byte
	SHA256        string // of Source, 64 hex digits
	Settings      map[string]string
	AllowHTTP     []string // origins: scheme://host[:port]
	AllowNetworks []netip.Prefix
	Limits        LoaderLimits
}

// LoaderLimits bound one call of a loader.
type LoaderLimits struct {
	Timeout         time.Duration
	MaxMemory       int64 // bytes of one instance; 0 for js, which has no such limit
	MaxInstances    int
	MaxOutputBytes  int64
	MaxHTTPRequests int
	MaxHTTPBytes    int64
}

// maxFile bounds a configuration file.
const maxFile = 1 << 20

// Load reads the configuration from read, or from the file when read is nil.
// The file's name stands in faults, and its folder is where relative paths
// start. env looks up variables; nil is the process's environment. What is
// wrong with the content comes as an *Error.
func Load(file string, read io.Reader, env func(string) (string, bool)) (*Config, error) {
	if read == nil {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		defer f.Close()
		read = f
	}
	data, err := io.ReadAll(io.LimitReader(read, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", file, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read configuration %s: larger than %s", file, sizeText(maxFile))
	}
	if env == nil {
		env = os.LookupEnv
	}
	return load(file, strings.TrimPrefix(string(data), "\uFEFF"), expander{env, filepath.Dir(file)})
}

func load(file, text string, x expander) (*Config, error) {
	r := newReader(file, text, x)
	c := defaults()
	if root := document.Parse(text, r.Faults); root != nil {
		r.section(root, c.fields(r))
		if root.Get("redis") == nil {
			c.Redis.Mode = Embedded
		}
		r.readNamespaces(c)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	c.Warnings = r.warnings.List()
	return c, nil
}
