package pki

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func TestClockThatWasAhead(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	mustOpen(t, testOptions(dir, c))
	c.advance(-5 * 365 * day)
	p := mustOpen(t, testOptions(dir, c))
	if _, err := handshake(t, p, c, roots(p), "localhost"); err != nil {
		t.Error(err)
	}
}

// A clock that is set years ahead, and right again later, leaves a running server with valid certificates.
func TestClockThatIsSetBack(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	p := mustOpen(t, testOptions(dir, c))
	if err := p.WriteKubeconfig("https://127.0.0.1:6443"); err != nil {
		t.Fatal(err)
	}
	known, kubeconfig := roots(p), read(t, p.KubeconfigPath())
	c.advance(9 * 365 * day)
	if _, err := handshake(t, p, c, known, "localhost"); err != nil {
		t.Fatal(err)
	}
	c.advance(-9 * 365 * day)
	if shown, err := handshake(t, p, c, known, "localhost"); err != nil || c.now.Before(shown.NotBefore) {
		t.Errorf("the certificate of a clock that was ahead is still shown: %v", err)
	}
	if proxy := p.ProxyCertificate().Leaf; c.now.Before(proxy.NotBefore) {
		t.Errorf("the certificate of the front proxy begins at %v", proxy.NotBefore)
	}
	if ca := p.ca.Load().cert; c.now.Before(ca.NotBefore) {
		t.Errorf("the authority begins at %v", ca.NotBefore)
	}
	if bytes.Equal(kubeconfig, read(t, p.KubeconfigPath())) {
		t.Error("admin.kubeconfig was not written again")
	}
}

// A machine that boots in 1970 keeps its authorities, also those that begin later, as older builds issued them: each is
// renewed once at most. What the server shows is valid for clients with its own clock, then and when it is right.
func TestClockThatStartsBehind(t *testing.T) {
	for _, older := range []bool{false, true} {
		dir, c := t.TempDir(), newClock()
		now := c.now
		p := mustOpen(t, testOptions(dir, c))
		if older {
			for _, a := range []authority{clientAuthority, proxyAuthority} {
				ca, err := readKeyPair(p.base(a))
				if err != nil {
					t.Fatal(err)
				}
				ca.cert.NotBefore = now.Add(-backdating)
				if ca, err = sign(ca.cert, ca.key, ca); err == nil {
					err = ca.write(p.base(a))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			p = mustOpen(t, testOptions(dir, c))
		}
		known := roots(p)
		authorities := map[string]bool{}
		for range 3 {
			c.now = time.Unix(5, 0)
			p = mustOpen(t, testOptions(dir, c))
			if err := p.WriteKubeconfig("https://127.0.0.1:6443"); err != nil {
				t.Fatal(err)
			}
			for _, c.now = range []time.Time{c.now, now.Add(day)} {
				if _, err := handshake(t, p, c, roots(p), "localhost"); err != nil {
					t.Errorf("at %v: %v", c.now, err)
				}
				authorities[string(p.ca.Load().cert.Raw)], authorities[string(p.proxyCA.Load().cert.Raw)] = true, true
			}
			if _, err := handshake(t, p, c, known, "localhost"); err != nil {
				t.Errorf("a client that knows the first authority: %v", err)
			}
		}
		if len(authorities) != 2 {
			t.Errorf("issued by an older build: %v; three boots used %d authorities, want 2", older, len(authorities))
		}
		if end := p.ca.Load().cert.NotAfter; end.Before(now.Add(caLifetime).Truncate(time.Second)) {
			t.Errorf("the authority ends at %v", end)
		}
	}
}

// A clock that jumps at any moment of a start or a renewal, and is right again at any later one, leaves a server with valid certificates.
func TestClockThatJumpsMeanwhile(t *testing.T) {
	for _, jump := range []time.Duration{-8 * 365 * day, 8 * 365 * day} {
		for first := 1; ; first++ {
			second := first + 1
			for jumpMeanwhile(t, jump, first, second) >= second {
				second++
			}
			if second == first+1 {
				break // the clock is read less often
			}
		}
	}
}

// jumpMeanwhile makes the clock jump at its first given read and jump back at the second, and returns how often it was read.
func jumpMeanwhile(t *testing.T, jump time.Duration, first, second int) (asked int) {
	t.Helper()
	c := newClock()
	right, o := c.now, testOptions(t.TempDir(), c)
	jumps := true
	o.Now = func() time.Time {
		if asked++; jumps && asked == first {
			c.advance(jump)
		} else if jumps && asked == second {
			c.now = right
		}
		return c.now
	}
	p := mustOpen(t, o)
	if err := p.WriteKubeconfig("https://127.0.0.1:6443"); err != nil {
		t.Fatal(err)
	}
	ask := func() error {
		_, err := handshake(t, p, c, roots(p), "localhost")
		return err
	}
	_ = ask() // it fails if the clock jumps meanwhile
	c.now, jumps = right, false
	before := asked
	_ = ask() // the client may know the authority before its renewal
	if err := ask(); err != nil {
		t.Errorf("jumps by %v, when asked for the %d. time and back at the %d.: %v", jump, first, second, err)
	}
	config, err := clientcmd.LoadFromFile(p.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	for what, cert := range map[string]*x509.Certificate{"the authority": p.ca.Load().cert, "the serving certificate": p.serving.Load().Leaf,
		"the front proxy's authority": p.proxyCA.Load().cert, "that of the front proxy": p.ProxyCertificate().Leaf, "the administrator's": adminOf(config).cert} {
		if right.Before(cert.NotBefore) || right.After(cert.NotAfter) {
			t.Errorf("jumps by %v, when asked for the %d. time and back at the %d.: %s is valid from %v to %v", jump, first, second, what, cert.NotBefore, cert.NotAfter)
		}
	}
	return before
}
