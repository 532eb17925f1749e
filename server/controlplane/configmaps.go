package controlplane

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

const (
	// trackingName is the ConfigMap with the date since when the server records the use of tokens in Secrets
	// (KEP-2799). The controller that removes unused tokens reads it.
	trackingName = "kube-apiserver-legacy-service-account-token-tracking"
	trackingKey  = "since"

	// trustName is the ConfigMap that tells extension API servers how to authenticate clients.
	trustName        = "extension-apiserver-authentication"
	trustKey         = "client-ca-file"
	trustProxyPrefix = "requestheader-"
	trustProxyKey    = trustProxyPrefix + "client-ca-file"
	// trustSlack is for how long an expired authority stays in the ConfigMap.
	trustSlack = 5 * time.Minute
)

// bootstrapConfigMaps creates the ConfigMaps that tell other programs what this server does.
func (p *Plane) bootstrapConfigMaps(ctx context.Context, all group) error {
	all.Go(func() error { return p.ensureTracking(ctx) })
	if p.ClientAuthorities != nil {
		all.Go(func() error { return p.ensureTrust(ctx) })
	}
	return nil
}

// keepTracking restores the date since when tokens are tracked, when it is missing or is no date.
func (p *Plane) keepTracking() *chore {
	return &chore{name: "the ConfigMap " + trackingName, follow: systemConfigMap(trackingName),
		do: func(ctx context.Context, _ []*resources.Event) (time.Duration, error) {
			return 0, p.ensureTracking(ctx)
		}}
}

// keepTrust keeps this server's authorities in their ConfigMap, beside those that other servers have put there.
func (p *Plane) keepTrust() *chore {
	if p.ClientAuthorities == nil {
		return nil
	}
	return &chore{name: "the ConfigMap " + trustName, follow: systemConfigMap(trustName), changed: p.ClientAuthorities.Changed,
		do: func(ctx context.Context, _ []*resources.Event) (time.Duration, error) { return 0, p.ensureTrust(ctx) }}
}

func systemConfigMap(name string) []resources.Key {
	return []resources.Key{{Resource: "configmaps", Namespace: metav1.NamespaceSystem, Name: name}}
}

func (p *Plane) ensureTracking(ctx context.Context) error {
	return p.ensureData(ctx, trackingName, func(data map[string]string) map[string]string {
		if _, err := time.Parse(time.DateOnly, data[trackingKey]); err != nil {
			data[trackingKey] = time.Now().UTC().Format(time.DateOnly)
		}
		return data
	})
}

func (p *Plane) ensureTrust(ctx context.Context) error {
	return p.ensureData(ctx, trustName, func(is map[string]string) map[string]string {
		data := map[string]string{}
		if bundle := combined(is[trustKey], p.ClientAuthorities.Certificates(), time.Now()); bundle != "" {
			data[trustKey] = bundle
		}
		if is[trustProxyKey] != "" {
			for key, value := range is {
				if strings.HasPrefix(key, trustProxyPrefix) {
					data[key] = value
				}
			}
		}
		if p.FrontProxy != nil {
			p.FrontProxy.publish(data, time.Now())
		}
		return data
	})
}

// publish adds the proxy's authorities and headers to those that are trusted already: other API servers may have other authorities.
func (f *FrontProxy) publish(data map[string]string, now time.Time) {
	bundle := combined(data[trustProxyKey], f.Authorities(), now)
	if bundle == "" {
		return
	}
	data[trustProxyKey] = bundle
	for name, values := range map[string][]string{"allowed-names": f.Names, "username-headers": f.UsernameHeaders, "uid-headers": f.UIDHeaders,
		"group-headers": f.GroupHeaders, "extra-headers-prefix": f.ExtraPrefixes} {
		data[trustProxyPrefix+name] = listed(data[trustProxyPrefix+name], values)
	}
	if len(f.Names) == 0 {
		data[trustProxyPrefix+"allowed-names"] = "[]" // any common name is accepted
	}
}

// listed adds values to a list in JSON that lacks them. A list that cannot be read is replaced.
func listed(list string, values []string) string {
	all := []string{}
	if err := json.Unmarshal([]byte(list), &all); err != nil {
		all = []string{}
	}
	for _, value := range values {
		if !slices.Contains(all, value) {
			all = append(all, value)
		}
	}
	data, _ := json.Marshal(all) // a list of strings always encodes
	return string(data)
}

// ensureData gives a ConfigMap in kube-system the data that change returns for its present data. change may modify its argument.
func (p *Plane) ensureData(ctx context.Context, name string, change func(map[string]string) map[string]string) error {
	t, ok := p.Registry.Catalog().Type("configmaps")
	if !ok {
		return nil
	}
	return p.ensure(ctx, t, metav1.NamespaceSystem, name, func(_ bool, obj runtime.Object) error {
		c := obj.(*core.ConfigMap)
		data := maps.Clone(c.Data)
		if data == nil {
			data = map[string]string{}
		}
		if data = change(data); len(data) > 0 || len(c.Data) > 0 {
			c.Data = data
		}
		return nil
	})
}

// combined returns a bundle of certificates with further ones added, without those that have expired. One that is added takes
// the place of the certificates that it supersedes: each renewal would add one otherwise. They go only then, because an older
// build puts its own back whenever it is missing. Certificates of more do not supersede each other: they are published as the
// server has them. Parts of the bundle that cannot be read are dropped.
func combined(bundle string, more []*x509.Certificate, now time.Time) string {
	all, _ := cert.ParseCertsPEM([]byte(bundle))
	var kept []*x509.Certificate
	for _, c := range all {
		if !expired(c, now) && !slices.ContainsFunc(kept, c.Equal) {
			kept = append(kept, c)
		}
	}
	for _, c := range more {
		better := func(k *x509.Certificate) bool { return !slices.ContainsFunc(more, k.Equal) && supersedes(k, c, now) }
		if expired(c, now) || slices.ContainsFunc(kept, c.Equal) || slices.ContainsFunc(kept, better) {
			continue
		}
		worse := func(k *x509.Certificate) bool { return !slices.ContainsFunc(more, k.Equal) && supersedes(c, k, now) }
		if i := slices.IndexFunc(kept, worse); i >= 0 {
			kept[i] = c
		} else {
			kept = append(kept, c)
		}
		kept = slices.DeleteFunc(kept, worse)
	}
	var text bytes.Buffer
	for _, c := range kept {
		text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return text.String()
}

func expired(c *x509.Certificate, now time.Time) bool { return !c.NotAfter.After(now.Add(-trustSlack)) }

// supersedes reports whether a certificate takes the place of another one of the same authority: the one that ends last does, but
// none that is not valid yet, as after a renewal while the clock was ahead. All servers decide alike, whichever of them they use,
// or they would overwrite each other's bundle for ever.
func supersedes(c, other *x509.Certificate, now time.Time) bool {
	if !bytes.Equal(c.RawSubjectPublicKeyInfo, other.RawSubjectPublicKeyInfo) || !bytes.Equal(c.RawSubject, other.RawSubject) || !bytes.Equal(c.RawIssuer, other.RawIssuer) {
		return false
	}
	if early := c.NotBefore.After(now); early != other.NotBefore.After(now) {
		return !early
	}
	return cmp.Or(c.NotAfter.Compare(other.NotAfter), other.NotBefore.Compare(c.NotBefore), bytes.Compare(c.Raw, other.Raw)) > 0
}
