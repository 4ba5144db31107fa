package wasm

import (
	"context"
	"errors"
	"sync"
)

var errClosed = errors.New("the wasm loader is closed")

// pool bounds how many instances there are and lends each to one call at a
// time. The one that came back last goes out first: its memory is warm, and
// under light load the others stay idle.
type pool struct {
	tokens chan struct{} // as many as there may be calls
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	idle []*instance // guarded by mu
}

// slot is the right to have one instance; inst is nil when there is none yet.
type slot struct{ inst *instance }

func newPool(size int) *pool {
	return &pool{tokens: make(chan struct{}, size), closed: make(chan struct{})}
}

// acquire waits for a slot until ctx ends.
func (p *pool) acquire(ctx context.Context) (*slot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case p.tokens <- struct{}{}:
		return p.enter()
	case <-p.closed:
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// enter is for who has a token. A caller that waited may get one after the pool
// was closed, since both came at once.
func (p *pool) enter() (*slot, error) {
	select {
	case <-p.closed:
		<-p.tokens
		return nil, errClosed
	default:
		return &slot{inst: p.pop()}, nil
	}
}

func (p *pool) pop() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	inst := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return inst
}

// release gives a slot back, with its instance unless that was retired.
func (p *pool) release(s *slot) {
	if s.inst != nil {
		p.mu.Lock()
		p.idle = append(p.idle, s.inst)
		p.mu.Unlock()
	}
	<-p.tokens
}

// retire closes the slot's instance; the next call gets a fresh one.
func (s *slot) retire() {
	s.inst.close()
	s.inst = nil
}

// close refuses new calls, waits for those that run and closes the instances.
func (p *pool) close() {
	p.once.Do(func() {
		close(p.closed)
		for range cap(p.tokens) {
			p.tokens <- struct{}{}
		}
		for inst := p.pop(); inst != nil; inst = p.pop() {
			inst.close()
		}
	})
}
