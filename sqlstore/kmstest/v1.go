//nolint:staticcheck // deprecated, and still there behind its gate
package kmstest

import (
	"bytes"
	"context"
	"errors"

	"google.golang.org/grpc"
	kmsv1 "k8s.io/kms/apis/v1beta1"
)

// v1 serves version 1 of the interface, which knows no names of keys.
type v1 struct {
	*Plugin
	kmsv1.UnsafeKeyManagementServiceServer
}

func (v v1) register(with *grpc.Server) { kmsv1.RegisterKeyManagementServiceServer(with, v) }

// Version returns the version of the interface.
func (v1) Version(context.Context, *kmsv1.VersionRequest) (*kmsv1.VersionResponse, error) {
	return &kmsv1.VersionResponse{Version: "v1beta1"}, nil
}

// Encrypt encrypts with the key in use.
func (v v1) Encrypt(_ context.Context, r *kmsv1.EncryptRequest) (*kmsv1.EncryptResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return &kmsv1.EncryptResponse{Cipher: xor(append([]byte("kms"), r.Plain...), v.pads[v.key])}, nil
}

// Decrypt decrypts with whichever key fits.
func (v v1) Decrypt(_ context.Context, r *kmsv1.DecryptRequest) (*kmsv1.DecryptResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls++
	for _, pad := range v.pads {
		if plain, found := bytes.CutPrefix(xor(r.Cipher, pad), []byte("kms")); found {
			return &kmsv1.DecryptResponse{Plain: plain}, nil
		}
	}
	return nil, errors.New("no key fits")
}
