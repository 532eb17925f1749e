package builtin

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/views"
)

// computedColumns are columns of kubectl's that its printers compute from several values, or word in their own way, so that views have no such names.
var computedColumns = map[string]string{
	"certificatesigningrequests.certificates.k8s.io": "RequestedDuration Condition",
	"clusterrolebindings.rbac.authorization.k8s.io":  "Users Groups ServiceAccounts",
	"controllerrevisions.apps":                       "Controller",
	"cronjobs.batch":                                 "Last_Schedule Selector",
	"customresourcedefinitions.apiextensions.k8s.io": "Group", // the name is a keyword of SQL
	"endpoints":                       "Endpoints",
	"endpointslices.discovery.k8s.io": "Ports Endpoints",
	"events":                          "Last_Seen Object Source First_Seen",
	"flowschemas.flowcontrol.apiserver.k8s.io":                     "MissingPL",
	"horizontalpodautoscalers.autoscaling":                         "Targets",
	"ingressclasses.networking.k8s.io":                             "Parameters",
	"ingresses.networking.k8s.io":                                  "Hosts Address Ports",
	"ipaddresses.networking.k8s.io":                                "ParentRef",
	"jobs.batch":                                                   "Duration",
	"mutatingadmissionpolicybindings.admissionregistration.k8s.io": "ParamRef",
	"podcertificaterequests.certificates.k8s.io":                   "State UnverifiedUserAnnotations",
	"pods":                                   "Readiness_Gates",
	"resourceclaims.resource.k8s.io":         "State",
	"resourcequotas":                         "Request Limit",
	"rolebindings.rbac.authorization.k8s.io": "Users Groups ServiceAccounts",
	"services":                               "External-IP Port(s)",
	"storageversionmigrations.storagemigration.k8s.io":               "Resource",
	"validatingadmissionpolicybindings.admissionregistration.k8s.io": "ParamRef",
}

// A view has the columns that kubectl prints under their names, except some that are computed.
func TestViewsHaveColumns(t *testing.T) {
	noLetters := regexp.MustCompile(`[^a-z0-9]+`)
	forEachType(t, true, func(t *testing.T, s *resources.Served) {
		resource := s.ResourceName()
		has := map[string]bool{"name": true, "age": true, "created_at": true, "status": true}
		for _, c := range views.OfBuiltin(resource).Columns {
			has[c.Name] = true
		}
		table, err := s.Table.ConvertToTable(t.Context(), s.NewList(), nil)
		if err != nil {
			t.Fatal(err)
		}
		computed := strings.Fields(computedColumns[resource])
		for _, c := range table.ColumnDefinitions {
			name := strings.Trim(noLetters.ReplaceAllString(strings.ToLower(c.Name), "_"), "_")
			if isComputed := slices.Contains(computed, strings.ReplaceAll(c.Name, " ", "_")); has[name] == isComputed {
				t.Errorf("kubectl prints %q; the view has it: %t", c.Name, has[name])
			}
		}
	})
}
