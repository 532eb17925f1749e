package handlers_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// bootstrapped returns the file of a store that has the objects of a first start, which take most of that start. The file is made once: a server
// that finds these objects only compares them.
func bootstrapped(t testing.TB) []byte {
	t.Helper()
	template.Lock()
	defer template.Unlock()
	if template.file == nil {
		file, first := filepath.Join(t.TempDir(), "template.db"), &ending{TB: t}
		newServer(first, utilfeature.DefaultMutableFeatureGate, openStore(first, file))
		first.end()
		var err error
		if template.file, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return template.file
}

var template struct {
	sync.Mutex
	file []byte
}

// ending is a part of a test that ends before the test.
type ending struct {
	testing.TB
	cleanups []func()
}

func (e *ending) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

func (e *ending) end() {
	for _, f := range slices.Backward(e.cleanups) {
		f()
	}
}
