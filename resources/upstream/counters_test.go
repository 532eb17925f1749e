package upstream_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// concatenation separates the parts of a text.
var concatenation = regexp.MustCompile(`" \+\s+"`)

// The counters here in place of upstream's packages have the same names, labels and help texts.
func TestCountersAreUpstreams(t *testing.T) {
	upstream.CountKept()
	upstream.DiscoveriesMade.Inc()
	upstream.PodLogsUntrusted.Inc()
	upstream.ServersWithoutSAN.Inc()
	upstream.ServersWithSHA1.Inc()
	upstream.CountPodLog(false)
	upstream.CountPodLog(true)
	upstream.CountIssued("other", true)
	upstream.NodePortRepairsFailed.Inc()
	upstream.CountNodePortError("leak")
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	help := map[string]string{}
	for _, f := range families {
		help[f.GetName()] = strings.TrimPrefix(f.GetHelp(), "[ALPHA] ")
	}
	for _, c := range []struct{ file, name string }{
		{"k8s.io/apiserver/pkg/endpoints/discovery/aggregated/metrics.go", "aggregator_discovery aggregation_count_total"},
		{"k8s.io/kube-aggregator/pkg/apiserver/metrics.go", "apiserver kube_aggregator x509_missing_san_total"},
		{"k8s.io/kube-aggregator/pkg/apiserver/metrics.go", "apiserver kube_aggregator x509_insecure_sha1_total"},
		{"k8s.io/kubernetes/pkg/registry/core/pod/rest/metrics.go", "kube_apiserver pod_logs backend_tls_failure_total"},
		{"k8s.io/kubernetes/pkg/registry/core/pod/rest/metrics.go", "kube_apiserver pod_logs insecure_backend_total enforce_tls skip_tls_allowed"},
		{"k8s.io/kubernetes/pkg/registry/core/service/portallocator/controller/metrics.go", "apiserver nodeport_repair reconcile_errors_total"},
		{"k8s.io/kubernetes/pkg/registry/core/service/portallocator/controller/metrics.go", "apiserver nodeport_repair port_errors_total"},
		{"k8s.io/kubernetes/pkg/registry/certificates/certificates/storage/metrics.go", "apiserver certificates_registry csr_requested_duration_total other"},
		{"k8s.io/kubernetes/pkg/registry/certificates/certificates/storage/metrics.go", "apiserver certificates_registry csr_honored_duration_total other"},
	} {
		text, err := os.ReadFile(filepath.Join(upstreamtest.PackageDir(t, filepath.Dir(c.file)), filepath.Base(c.file)))
		if err != nil {
			t.Fatal(err)
		}
		text = concatenation.ReplaceAll(text, nil)
		name := ""
		for part := range strings.FieldsSeq(c.name) {
			if !strings.Contains(string(text), `"`+part+`"`) {
				t.Errorf("%s does not name %s", c.file, part)
			}
			if !strings.HasSuffix(name, "_total") {
				name = strings.TrimPrefix(name+"_"+part, "_")
			}
		}
		if said := help[name]; said == "" || !strings.Contains(string(text), `"`+said+`"`) {
			t.Errorf("%s says something else than %q of %s", c.file, said, name)
		}
	}
}
