package authn

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

// cacheKey identifies a token, and the audiences that it has to be valid for.
type cacheKey [sha256.Size]byte

// keySeed makes the keys of a cache unpredictable; tokens themselves are not kept.
type keySeed [sha256.Size]byte

func newKeySeed() (s keySeed) {
	_, _ = rand.Read(s[:]) // never fails
	return s
}

func (s *keySeed) key(ctx context.Context, token string) cacheKey {
	buffer := make([]byte, 0, 2048)
	buffer = append(buffer, s[:]...)
	buffer = append(binary.BigEndian.AppendUint64(buffer, uint64(len(token))), token...)
	if audiences, ok := authenticator.AudiencesFrom(ctx); ok {
		buffer = append(buffer, 1)
		for _, a := range audiences {
			buffer = append(binary.BigEndian.AppendUint64(buffer, uint64(len(a))), a...)
		}
	}
	return sha256.Sum256(buffer)
}

// foreignTokens are tokens that an authenticator leaves to others because they name none of its issuers, which needs a token to be decoded.
// A token stays foreign as long as the issuers are the same.
type foreignTokens struct {
	mu    sync.RWMutex
	known map[cacheKey]struct{}
}

// foreignMost bounds how many tokens are remembered: anybody can present tokens. Beyond it, all are forgotten.
const foreignMost = 4096

func (f *foreignTokens) has(key cacheKey) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	_, ok := f.known[key]
	return ok
}

func (f *foreignTokens) add(key cacheKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil || len(f.known) >= foreignMost {
		f.known = map[cacheKey]struct{}{}
	}
	f.known[key] = struct{}{}
}
