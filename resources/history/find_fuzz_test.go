package history

import "testing"

// FuzzContinue sends any continue token: an accepted one is one that the server issued.
func FuzzContinue(f *testing.F) {
	for _, seed := range []string{continueAt(1), continueAt(1 << 51), continueAt(-3), "", "eA", "YmVmb3JlIDAx", "\xff", continueAt(7) + "="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if revision, err := revisionBefore(token); err == nil && (revision <= 0 || continueAt(revision) != token) {
			t.Errorf("%q was taken for revision %d", token, revision)
		}
	})
}
