package builtin

import (
	"regexp"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/views"
)

// otherNames are the columns of kubectl's that views have under other names: times and seconds instead of time spans, and names that are no
// keywords of SQL.
var otherNames = map[string]string{
	"certificatesigningrequests.certificates.k8s.io RequestedDuration": "requested_seconds",
	"cronjobs.batch Last Schedule":                                     "last_schedule_time",
	"customresourcedefinitions.apiextensions.k8s.io Group":             "group_name",
	"evictions.lifecycle.k8s.io Responder Status":                      "responder_state",
	"evictions.lifecycle.k8s.io Responder Expected Finish":             "responder_expected_time",
	"evictions.lifecycle.k8s.io Responder Heartbeat":                   "responder_heartbeat_time",
	"events First Seen":   "first_time",
	"events Last Seen":    "last_time",
	"events Object":       "printed_object",
	"jobs.batch Duration": "duration_seconds",
	"resourcepoolstatusrequests.resource.k8s.io Completed": "completed_time",
	"resourcequotas Limit":                                 "limits",
	"services Port(s)":                                     "ports",
}

var noLetters = regexp.MustCompile(`[^a-z0-9]+`)

// viewColumn returns the name that a column of kubectl's has in a view; "" for those that all views have.
func viewColumn(resource, title string) string {
	if other, ok := otherNames[resource+" "+title]; ok {
		return other
	}
	switch name := strings.Trim(noLetters.ReplaceAllString(strings.ToLower(title), "_"), "_"); name {
	case "name", "age", "created_at":
		return ""
	case "status": // all views have another column of this name
		return "printed_status"
	default:
		return name
	}
}

// serveAllTypes returns every version of every type, those of alpha features included.
func serveAllTypes(t *testing.T) *resources.Catalog {
	t.Helper()
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.GenericWorkload: true, features.TopologyAwareWorkloadScheduling: true, features.CompositePodGroup: true,
		features.EvictionRequestAPI: true})
	return serving(t, map[string]string{"api/all": "true"})
}

// A view has every column that kubectl prints.
func TestViewsHaveColumns(t *testing.T) {
	used := map[string]bool{}
	for s := range serveAllTypes(t).Types {
		if !s.Stored() {
			continue
		}
		resource := s.ResourceName()
		has := map[string]bool{"": true}
		for _, c := range views.OfBuiltin(resource).Columns {
			has[c.Name] = true
		}
		table, err := s.Table.ConvertToTable(t.Context(), s.NewList(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range table.ColumnDefinitions {
			used[resource+" "+c.Name] = true
			if name := viewColumn(resource, c.Name); !has[name] {
				t.Errorf("%s: kubectl prints %q, and the view has no column %s", resource, c.Name, name)
			}
		}
	}
	for title := range otherNames {
		if !used[title] {
			t.Errorf("kubectl does not print %s", title)
		}
	}
}
