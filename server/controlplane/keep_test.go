package controlplane_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/client-go/util/cert"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
)

// newKept returns a server that runs its chores.
func newKept(t *testing.T, change func(*server.Config, *controlplane.Config)) kept {
	t.Helper()
	k := newWhole(t, change)
	k.keep(k.services())
	return k
}

// services creates the Services that every cluster has, and returns their network.
func (k kept) services() controlplane.Network {
	k.Helper()
	network := controlplane.Network{ServiceRanges: builtin.DefaultServiceNetwork().Ranges, Port: 6443}
	if err := k.p.BootstrapServices(k.Context(), network); err != nil {
		k.Fatal(err)
	}
	return network
}

// keep runs the chores until the test ends.
func (k kept) keep(network controlplane.Network) {
	ctx, stop := context.WithCancel(k.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.p.Keep(ctx, network)
	}()
	k.Cleanup(func() {
		stop()
		<-done
	})
}

// send sends a request that has to succeed. A patch is a merge patch.
func (k kept) send(method, path, body string) string {
	k.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "known")
	r.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	w := httptest.NewRecorder()
	if k.s.Handler().ServeHTTP(w, r); w.Code >= 300 {
		k.Fatalf("%s %s: %s", method, path, w.Body)
	}
	return w.Body.String()
}

// until waits until the answer for a path satisfies a condition.
func (k kept) until(what, resource, path string, ok func(answer string) bool) string {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), patience)
	defer cancel()
	for {
		now, err := k.store.Snapshot(ctx, resource, resources.At{Match: resources.MostRecent})
		if err != nil {
			k.Fatal(err)
		}
		answer := get(k.s.Handler(), path, "known").Body.String()
		if ok(answer) {
			return answer
		}
		w, err := k.store.Watch(ctx, resources.WatchOptions{Resource: resource, After: now.Revision()})
		if err != nil {
			k.Fatal(err)
		}
		select {
		case <-w.Ready():
		case <-ctx.Done():
			k.Fatalf("%s: not %s: %s", path, what, answer)
		}
		w.Close()
	}
}

func field(path, want string) func(string) bool {
	return func(answer string) bool { return gjson.Get(answer, path).String() == want }
}

// back waits until another object exists in place of the deleted one.
func (k kept) back(resource, path, deleted string) {
	k.Helper()
	k.until("back", resource, path, func(answer string) bool {
		uid := gjson.Get(answer, "metadata.uid").Str
		return uid != "" && uid != gjson.Get(deleted, "metadata.uid").Str
	})
}

func TestKeepFlows(t *testing.T) {
	k := newKept(t, nil)
	const flows, levels = "flowschemas.flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"
	const levelPath = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
	for _, name := range []string{"catch-all", "probes"} { // one mandatory, one suggested
		was := k.send("GET", flowSchemas+"/"+name, "")
		k.send("DELETE", flowSchemas+"/"+name, "")
		k.back(flows, flowSchemas+"/"+name, was)
		k.until("in use", flows, flowSchemas+"/"+name, field("status.conditions.0.status", "False"))
	}
	was := k.send("GET", levelPath+"/workload-high", "")
	k.send("DELETE", levelPath+"/workload-high", "")
	k.back(levels, levelPath+"/workload-high", was)
	// A mandatory object is restored whatever its annotation says; a suggested one belongs to the user once the annotation says so.
	k.send("PATCH", flowSchemas+"/service-accounts", `{"metadata":{"annotations":{"apf.kubernetes.io/autoupdate-spec":"false"}},"spec":{"matchingPrecedence":3}}`)
	k.send("PATCH", levelPath+"/catch-all", `{"metadata":{"annotations":{"apf.kubernetes.io/autoupdate-spec":"false"}}}`)
	k.until("restored", levels, levelPath+"/catch-all", field(`metadata.annotations.apf\.kubernetes\.io/autoupdate-spec`, "true"))
	k.send("PATCH", levelPath+"/workload-low", `{"spec":{"limited":{"nominalConcurrencyShares":6}}}`)
	k.until("restored", levels, levelPath+"/workload-low", field("spec.limited.nominalConcurrencyShares", "100"))
	if got := k.send("GET", flowSchemas+"/service-accounts", ""); !field("spec.matchingPrecedence", "3")(got) {
		t.Errorf("what a user has taken over was changed: %s", got)
	}
	// Values that an earlier release proposed are removed.
	k.send("POST", flowSchemas, `{"metadata":{"name":"old","annotations":{"apf.kubernetes.io/autoupdate-spec":"true"}},"spec":{"priorityLevelConfiguration":{"name":"system"}}}`)
	k.until("removed", flows, flowSchemas+"/old", field("code", "404"))
	// The status of a user's own FlowSchema follows its priority level.
	k.send("POST", flowSchemas, `{"metadata":{"name":"own"},"spec":{"priorityLevelConfiguration":{"name":"own"}}}`)
	k.until("dangling", flows, flowSchemas+"/own", field(`status.conditions.#(type=="Dangling").message`,
		`This FlowSchema references the PriorityLevelConfiguration object named "own" but there is no such object`))
	k.send("POST", levelPath, `{"metadata":{"name":"own"},"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Reject"}}}}`)
	k.until("found", flows, flowSchemas+"/own", field(`status.conditions.#(type=="Dangling").reason`, "Found"))
	k.send("PATCH", flowSchemas+"/own/status", `{"status":{"conditions":[]}}`)
	k.until("found again", flows, flowSchemas+"/own", field(`status.conditions.#(type=="Dangling").status`, "False"))
}

func TestKeepNamespaces(t *testing.T) {
	k := newKept(t, nil)
	o, err := k.store.Get(t.Context(), resources.Key{Resource: "namespaces", Name: "kube-node-lease"}, resources.At{})
	if err != nil {
		t.Fatal(err)
	}
	was := k.send("GET", "/api/v1/namespaces/kube-node-lease", "")
	if _, err := k.store.Commit(t.Context(), resources.Write{Op: resources.Delete, Key: o.Key, From: o.Revision}); err != nil {
		t.Fatal(err)
	}
	k.back("namespaces", "/api/v1/namespaces/kube-node-lease", was)
}

const trackingPath = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking"

func TestKeepTracking(t *testing.T) {
	k := newKept(t, nil)
	isDate := func(answer string) bool {
		_, err := time.Parse(time.DateOnly, gjson.Get(answer, "data.since").Str)
		return err == nil
	}
	was := k.until("there", "configmaps", trackingPath, isDate)
	k.send("DELETE", trackingPath, "")
	k.back("configmaps", trackingPath, was)
	k.send("PATCH", trackingPath, `{"data":{"since":"yesterday","other":"stays"}}`)
	answer := k.until("a date", "configmaps", trackingPath, isDate)
	if !field("data.other", "stays")(answer) {
		t.Error(answer)
	}
	k.send("PATCH", trackingPath, `{"data":{"since":"2001-02-03"}}`)
	if err := k.p.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if answer := k.send("GET", trackingPath, ""); !field("data.since", "2001-02-03")(answer) {
		t.Errorf("a date was changed: %s", answer)
	}
}

// authorities are the authorities of a test.
type authorities struct {
	all     []*x509.Certificate
	changed chan struct{}
}

func (a *authorities) Certificates() []*x509.Certificate { return a.all }
func (a *authorities) Changed() <-chan struct{}          { return a.changed }

func newAuthority(t *testing.T, name string, notAfter time.Time) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: notAfter.Add(-time.Hour), NotAfter: notAfter}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The ConfigMap for extension API servers has the authorities of all servers, until they expire.
func TestKeepTrust(t *testing.T) {
	const path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
	own, others := newAuthority(t, "own", time.Now().Add(time.Hour)), newAuthority(t, "others", time.Now().Add(time.Hour))
	expired := newAuthority(t, "expired", time.Now().Add(-time.Hour))
	a := &authorities{all: []*x509.Certificate{own, expired}}
	k := newKept(t, func(_ *server.Config, c *controlplane.Config) { c.ClientAuthorities = a })
	trusts := func(want ...string) func(string) bool {
		return func(answer string) bool {
			bundle, err := cert.ParseCertsPEM([]byte(gjson.Get(answer, "data.client-ca-file").Str))
			var names []string
			for _, c := range bundle {
				names = append(names, c.Subject.CommonName)
			}
			return err == nil && slices.Equal(names, want)
		}
	}
	was := k.until("made", "configmaps", path, trusts("own"))
	k.send("DELETE", path, "")
	k.back("configmaps", path, was)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: others.Raw}))
	quoted := strings.ReplaceAll(text, "\n", `\n`)
	k.send("PATCH", path, `{"data":{"client-ca-file":"`+quoted+`","unknown":"goes"}}`)
	answer := k.until("of both", "configmaps", path, trusts("others", "own"))
	if gjson.Get(answer, "data.unknown").Exists() {
		t.Error(answer)
	}
	k.send("PATCH", path, `{"data":{"client-ca-file":"none","requestheader-client-ca-file":"x","requestheader-allowed-names":"[]"}}`)
	answer = k.until("of this server", "configmaps", path, trusts("own"))
	if !field("data.requestheader-allowed-names", "[]")(answer) {
		t.Errorf("what another server says of its proxy is gone: %s", answer)
	}
}

// The ConfigMap for extension API servers has the front proxy of this server, beside those of other servers.
func TestKeepTrustInProxy(t *testing.T) {
	const path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
	own := newAuthority(t, "own", time.Now().Add(time.Hour))
	proxy, others := newAuthority(t, "proxy", time.Now().Add(time.Hour)), newAuthority(t, "others", time.Now().Add(time.Hour))
	k := newKept(t, func(_ *server.Config, c *controlplane.Config) {
		c.ClientAuthorities = &authorities{all: []*x509.Certificate{own}}
		c.FrontProxy = &controlplane.FrontProxy{Names: []string{"front"}, Authorities: func() []*x509.Certificate { return []*x509.Certificate{proxy} },
			UsernameHeaders: []string{"X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"}, GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"}}
	})
	trusts := func(want ...string) func(string) bool {
		return func(answer string) bool {
			bundle, err := cert.ParseCertsPEM([]byte(gjson.Get(answer, "data.requestheader-client-ca-file").Str))
			var names []string
			for _, c := range bundle {
				names = append(names, c.Subject.CommonName)
			}
			return err == nil && slices.Equal(names, want)
		}
	}
	answer := k.until("made", "configmaps", path, trusts("proxy"))
	for key, want := range map[string]string{"allowed-names": `["front"]`, "username-headers": `["X-Remote-User"]`, "uid-headers": `["X-Remote-Uid"]`,
		"group-headers": `["X-Remote-Group"]`, "extra-headers-prefix": `["X-Remote-Extra-"]`} {
		if !field("data.requestheader-"+key, want)(answer) {
			t.Errorf("%s: %s", key, answer)
		}
	}
	text := strings.ReplaceAll(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: others.Raw})), "\n", `\n`)
	k.send("PATCH", path, `{"data":{"requestheader-client-ca-file":"`+text+`","requestheader-allowed-names":"[\"other\"]","requestheader-username-headers":"none"}}`)
	answer = k.until("of both", "configmaps", path, trusts("others", "proxy"))
	if !field("data.requestheader-allowed-names", `["other","front"]`)(answer) || !field("data.requestheader-username-headers", `["X-Remote-User"]`)(answer) {
		t.Error(answer)
	}
}

// A ConfigMap that a user has made immutable does not keep a server from starting.
func TestBootstrapRefusedConfigMaps(t *testing.T) {
	const path = "/api/v1/namespaces/kube-system/configmaps/"
	for how, patch := range map[string]string{"immutable": `{"immutable":true,"data":null}`, "taken": `{"binaryData":{"since":"eA==","client-ca-file":"eA=="},"data":null}`} {
		t.Run(how, func(t *testing.T) {
			a := &authorities{all: []*x509.Certificate{newAuthority(t, "own", time.Now().Add(time.Hour))}}
			k := newWhole(t, func(_ *server.Config, c *controlplane.Config) { c.ClientAuthorities = a })
			for _, name := range []string{"extension-apiserver-authentication", "kube-apiserver-legacy-service-account-token-tracking"} {
				k.send("PATCH", path+name, patch)
			}
			if err := k.p.Bootstrap(t.Context()); err != nil {
				t.Error(err)
			}
			for _, name := range []string{"extension-apiserver-authentication", "kube-apiserver-legacy-service-account-token-tracking"} {
				if got := k.send("GET", path+name, ""); gjson.Get(got, "data").Exists() {
					t.Errorf("nothing was refused: %s", got)
				}
			}
		})
	}
}
