// Package kmstest is a KMS plugin of versions 2 and 1 for tests: a server on a unix socket with its keys in memory.
package kmstest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"
)

// Plugin encrypts by adding a random pad that belongs to its key. It is not a secure cipher, but enough to show that
// nothing else can read the data.
type Plugin struct {
	// Endpoint is its address for an EncryptionConfiguration.
	Endpoint string
	path     string

	mu     sync.Mutex
	pads   map[string][]byte // by key id
	key    string
	server *grpc.Server
	calls  int
	kmsapi.UnsafeKeyManagementServiceServer
}

// New starts a plugin that ends with the test.
func New(t testing.TB) *Plugin {
	t.Helper()
	dir, err := os.MkdirTemp("", "kms") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	p := &Plugin{path: filepath.Join(dir, "s"), pads: map[string][]byte{}}
	p.Endpoint = "unix://" + p.path
	p.Rotate("1")
	t.Cleanup(func() {
		p.Stop()
		os.RemoveAll(dir) //nolint:errcheck // of a temporary folder
	})
	p.Start(t)
	return p
}

// Start serves; it may be called again after Stop.
func (p *Plugin) Start(t testing.TB) {
	t.Helper()
	l, err := net.Listen("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	p.server = grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(p.server, p)
	v1{Plugin: p}.register(p.server)
	go p.server.Serve(l) //nolint:errcheck // it ends with Stop
}

// Stop ends the server.
func (p *Plugin) Stop() { p.server.Stop() }

// Rotate sets the key for encryption.
func (p *Plugin) Rotate(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.pads[id] = id, make([]byte, 4096)
	_, _ = rand.Read(p.pads[id]) // it has no errors
}

// Forget removes a key, and returns it.
func (p *Plugin) Forget(id string) (pad []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pad = p.pads[id]
	delete(p.pads, id)
	return pad
}

// Remember adds a removed key again.
func (p *Plugin) Remember(id string, pad []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pads[id] = pad
}

// Decrypted returns how often the plugin was called to decrypt.
func (p *Plugin) Decrypted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// Status returns the key in use.
func (p *Plugin) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: p.key}, nil
}

// Encrypt encrypts with the key in use.
func (p *Plugin) Encrypt(_ context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &kmsapi.EncryptResponse{Ciphertext: xor(append([]byte("kms"), r.Plaintext...), p.pads[p.key]), KeyId: p.key}, nil
}

// Decrypt decrypts with the key that is named.
func (p *Plugin) Decrypt(_ context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	pad, ok := p.pads[r.KeyId]
	if !ok {
		return nil, fmt.Errorf("no key %q", r.KeyId)
	}
	plain, found := bytes.CutPrefix(xor(r.Ciphertext, pad), []byte("kms"))
	if !found {
		return nil, errors.New("another key")
	}
	return &kmsapi.DecryptResponse{Plaintext: plain}, nil
}

func xor(a, pad []byte) []byte {
	out := make([]byte, len(a))
	for i := range a {
		out[i] = a[i] ^ pad[i%len(pad)]
	}
	return out
}
