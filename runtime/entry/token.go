package entry

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
)

// NodeID names one set of stamps and L2 in the cluster: random, new at each
// start.
type NodeID [16]byte

func (id NodeID) String() string { return hex.EncodeToString(id[:]) }

// NewNodeID makes a random id.
func NewNodeID() NodeID {
	var id NodeID
	rand.Read(id[:]) // never fails: crypto/rand ends the process rather than return an error
	return id
}

// Token is the proof of a lease or refresh, and the name of a write: a node id
// and a number that node never uses again. The zero Token is none.
type Token [24]byte

// Tokens issues the tokens of one node; each is issued once.
type Tokens struct {
	node NodeID
	last atomic.Uint64
}

// NewTokens starts at number 1.
func NewTokens(node NodeID) *Tokens { return &Tokens{node: node} }

// Next issues a token.
func (t *Tokens) Next() Token {
	var token Token
	copy(token[:], t.node[:])
	binary.BigEndian.PutUint64(token[len(t.node):], t.last.Add(1))
	return token
}

// Node is the id in the token.
func (t Token) Node() NodeID { return NodeID(t[:16]) }

func (t Token) String() string { return hex.EncodeToString(t[:]) }
