package builtin

import (
	"math/rand/v2"
	"testing"
)

// chosen are choices by bytes, and the first choice when there are none left.
type chosen []byte

// IntN implements choices.
func (c *chosen) IntN(n int) int {
	if len(*c) == 0 {
		return 0
	}
	one := int((*c)[0]) % n
	*c = (*c)[1:]
	return one
}

// addBytes adds random bytes of several lengths to begin with.
func addBytes(f *testing.F) {
	f.Helper()
	random := rand.NewChaCha8([32]byte{1})
	for n := range 30 {
		seed := make([]byte, 10*n)
		_, _ = random.Read(seed)
		f.Add(seed)
	}
}

// FuzzCoverage is TestCoverage with rules of any bytes.
func FuzzCoverage(f *testing.F) {
	addBytes(f)
	f.Fuzz(func(t *testing.T, bytes []byte) {
		from := chosen(bytes)
		compareCoverage(t, &from)
	})
}

// FuzzEscalation is TestEscalationAsUpstream with roles, bindings and rights of any bytes.
func FuzzEscalation(f *testing.F) {
	addBytes(f)
	f.Fuzz(func(t *testing.T, bytes []byte) {
		from := chosen(bytes)
		compareEscalation(t, &from)
	})
}
