// Package abi is the binary contract between the cache and a Wasm loader,
// version 1: the names a module exports, the numbers both sides agree on and
// the frames that travel through the module's memory.
//
// It serves both sides. A host encodes requests and decodes responses; a guest
// decodes requests and encodes responses. A host is strict, because what it
// reads was written by a stranger; a guest skips what it does not know, so that
// the request may grow inside version 1.
//
// All integers are little endian and unsigned, and nothing is aligned. The
// package imports nothing that does not fit into a small guest.
package abi

// What a module exports. The marker is never called: its presence names the
// version. LoadAll and Initialize are optional.
const (
	Marker     = "cocache_abi_v1"
	Alloc      = "cocache_alloc"
	Load       = "cocache_load"
	LoadAll    = "cocache_load_all"
	Memory     = "memory"
	Initialize = "_initialize"
)

// HostModule is the module whose functions a guest imports.
const HostModule = "cocache"

// Sizes, in bytes.
const (
	// RequestHeader is the size of a request before its first key.
	RequestHeader = 16
	// RequestRecord is the size of a key's record, its own size field
	// included, before the key.
	RequestRecord = 16
	// ResponseRecord is the size of an answer before its body.
	ResponseRecord = 24
	// TLVHeader is the size of a TLV before its bytes.
	TLVHeader = 8
	// MaxBatch is the size under which a host keeps a request of several keys.
	MaxBatch = 1 << 20
)

// Kind of a request.
type Kind uint8

// The kinds: one key, or several in one call.
const (
	KindLoad    Kind = 0
	KindLoadAll Kind = 1
)

// FlagBackground marks a refresh that no reader waits for.
const FlagBackground uint8 = 1

// Status of an answer.
type Status uint8

const (
	// StatusValue: the body is the value.
	StatusValue Status = 0
	// StatusAbsent: the key does not exist; no body.
	StatusAbsent Status = 1
	// StatusRetry: passing trouble; the body is a message, the time to live
	// the earliest retry.
	StatusRetry Status = 2
	// StatusError: the load failed; the body is a message.
	StatusError Status = 3
	// StatusNoStore: a value that must not be stored.
	StatusNoStore Status = 4
)

// Words in the place of a time to live. Zero is an error; every other number
// is milliseconds.
const (
	TTLDefault uint32 = 0xFFFFFFFF
	TTLForever uint32 = 0xFFFFFFFE
	// TTLMax is the longest time to live that is not a word: 49.7 days.
	TTLMax uint32 = 0xFFFFFFFD
)

// Types of a TLV. A host skips those that it does not know.
const (
	TLVContentType uint16 = 1
	TLVErrorCode   uint16 = 2
)

// What a host function answers instead of a length.
const (
	ErrNotFound    int32 = -1
	ErrDenied      int32 = -2
	ErrLimit       int32 = -3
	ErrDeadline    int32 = -4
	ErrBadArgument int32 = -5
	ErrFailed      int32 = -6
	ErrRecursion   int32 = -7
)

// Levels of the host function log.
const (
	LevelDebug uint32 = 0
	LevelInfo  uint32 = 1
	LevelWarn  uint32 = 2
	LevelError uint32 = 3
)

// Pack makes the one result of a load of a pointer and a length.
func Pack(ptr, size uint32) uint64 { return uint64(ptr)<<32 | uint64(size) }

// Unpack is the reverse of Pack.
func Unpack(v uint64) (ptr, size uint32) { return uint32(v >> 32), uint32(v) }
