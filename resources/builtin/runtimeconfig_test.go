package builtin

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// serving is the catalog under a runtime configuration.
func serving(t *testing.T, config map[string]string) *resources.Catalog {
	t.Helper()
	parsed, err := ParseRuntimeConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	r := resources.NewRegistry()
	r.SetGroups(Parts{APIs: parsed}.Groups())
	return r.Catalog()
}

func TestRuntimeConfig(t *testing.T) {
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	replicaSets := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	beta := schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1beta1", Resource: "resourceclaims"}
	alpha := schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1alpha3", Resource: "devicetaintrules"}
	type config = map[string]string
	for _, tc := range []struct {
		name    string
		config  config
		on, off []schema.GroupVersionResource
	}{
		{"nothing", nil, []schema.GroupVersionResource{deployments, pods}, []schema.GroupVersionResource{beta, alpha}},
		{"all", config{"api/all": "true"}, []schema.GroupVersionResource{deployments, pods, beta, alpha}, nil},
		{"one class", config{"api/beta": "true"}, []schema.GroupVersionResource{deployments, beta}, []schema.GroupVersionResource{alpha}},
		{"a class overrules all", config{"api/all": "true", "api/alpha": "false"}, []schema.GroupVersionResource{beta}, []schema.GroupVersionResource{alpha}},
		{"a version overrules its class", config{"api/all": "false", "apps/v1": "true"},
			[]schema.GroupVersionResource{deployments}, []schema.GroupVersionResource{pods}},
		{"a resource overrules its version", config{"apps/v1": "false", "apps/v1/deployments": "true"},
			[]schema.GroupVersionResource{deployments}, []schema.GroupVersionResource{replicaSets}},
		{"a key alone is true", config{"resource.k8s.io/v1beta1": ""}, []schema.GroupVersionResource{beta}, nil},
		{"core", config{"v1": "false"}, []schema.GroupVersionResource{deployments}, []schema.GroupVersionResource{pods}},
		{"core's resource", config{"api/v1/pods": "false"}, []schema.GroupVersionResource{deployments}, []schema.GroupVersionResource{pods}},
		{"what once was", config{"api/legacy": "false"}, []schema.GroupVersionResource{deployments, pods}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := serving(t, tc.config)
			for _, gvr := range tc.on {
				if _, ok := c.Lookup(gvr); !ok {
					t.Errorf("%s is not served", gvr)
				}
			}
			for _, gvr := range tc.off {
				if _, ok := c.Lookup(gvr); ok {
					t.Errorf("%s is served", gvr)
				}
			}
		})
	}
}

// The errors are those with which kube-apiserver v1.37.1 exits.
func TestRuntimeConfigRefusals(t *testing.T) {
	for key, want := range map[string]string{
		"api/all=false":             "invalid runtime-config with only api/all=false",
		"api/beta=x":                "invalid value api/beta=x",
		"foo/v1=true":               "unknown api groups foo/v1",
		"foo=true":                  "runtime-config invalid key foo",
		"apps/v9=true":              "group version apps/v9 that has not been registered",
		"apps/v1=x":                 `invalid value of apps/v1: x, err: strconv.ParseBool: parsing "x": invalid syntax`,
		"apps/v1/Deployments=false": `invalid key apps/v1/Deployments: group/version/resource and resource is always lowercase plural, not "Deployments"`,
	} {
		name, value, _ := strings.Cut(key, "=")
		_, err := ParseRuntimeConfig(map[string]string{name: value})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", key, err, want)
		}
	}
}

// Deletes of a DeviceTaintRule answer with the object in the versions before v1, as upstream's storages of these do.
func TestDeletesAnswerByVersion(t *testing.T) {
	catalog := serving(t, map[string]string{"api/all": "true"})
	for version, want := range map[string]bool{"v1": false, "v1beta2": true, "v1alpha3": true} {
		served, ok := catalog.Lookup(schema.GroupVersionResource{Group: "resource.k8s.io", Version: version, Resource: "devicetaintrules"})
		if !ok || served.ReturnsDeleted() != want {
			t.Errorf("%s: served %v, want the object back %v", version, ok, want)
		}
	}
}
