package builtin

import (
	"fmt"
	"log/slog"
	"math/rand"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/views"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
	"github.com/rowlock/rowlock/sqlstore/sqltest"
)

// inStates are the objects, without their beginning, of which columns are computed.
var inStates = map[string]func(s states) string{
	"pods":                                 states.pod,
	"horizontalpodautoscalers.autoscaling": states.autoscaler,
	"resourcequotas":                       states.quota,
	"clusterrolebindings.rbac.authorization.k8s.io":                  states.subjects,
	"rolebindings.rbac.authorization.k8s.io":                         states.subjects,
	"mutatingadmissionpolicybindings.admissionregistration.k8s.io":   states.parameter,
	"validatingadmissionpolicybindings.admissionregistration.k8s.io": states.parameter,
	"evictions.lifecycle.k8s.io":                                     states.eviction,
	"evictionrequests.lifecycle.k8s.io":                              states.eviction,
	"services": func(s states) string {
		return `},"spec":{"type":"` + s.of("ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer", "ExternalName") + `","externalName":"` + s.of("", "x.example") +
			`","externalIPs":` + s.either(`"192.0.2.7"`, `"192.0.2.1"`) + `,"ports":` + s.either(`{"port":80,"protocol":"TCP"}`, `{"port":53,"protocol":"UDP","nodePort":30053}`) +
			`},"status":{"loadBalancer":{"ingress":` + s.addresses() + "}}}"
	},
	"ingresses.networking.k8s.io": func(s states) string {
		return `},"spec":{"rules":` + s.some(6, func(i int) string {
			return s.of("{}", fmt.Sprintf(`{"host":"h%d.example"}`, i), fmt.Sprintf(`{"host":"a%d.example"}`, i))
		}) +
			s.of("", `,"tls":[{}]`) + `},"status":{"loadBalancer":{"ingress":` + s.addresses() + "}}}"
	},
	"ingressclasses.networking.k8s.io": func(s states) string {
		return `},"spec":{"controller":"c"` + s.of("", `,"parameters":{"kind":"K","name":"n"}`, `,"parameters":{"apiGroup":"example.com","kind":"K","name":"n"}`) + "}}"
	},
	"ipaddresses.networking.k8s.io": func(s states) string {
		return `},"spec":{"parentRef":` + s.of("null", `{"resource":"services","name":"S","namespace":"a"}`, `{"group":"Example.com","resource":"Things","name":"T"}`) + "}}"
	},
	"endpoints": func(s states) string {
		return `},"subsets":` + s.some(3, func(i int) string {
			return `{"addresses":` + s.some(4, func(j int) string { return fmt.Sprintf(`{"ip":"%s%d%d"}`, s.of("fd00::", "10.0.0."), i, j) }) +
				`,"ports":` + s.some(4, func(j int) string { return fmt.Sprintf(`{"port":%d}`, 80+j) }) + "}"
		}) + "}"
	},
	"endpointslices.discovery.k8s.io": func(s states) string {
		return `},"addressType":"IPv4","endpoints":` + s.some(4, func(i int) string {
			return `{"addresses":` + s.some(2, func(j int) string { return fmt.Sprintf(`"10.0.%d.%d"`, i, j) }) + "}"
		}) + `,"ports":` + s.some(5, func(i int) string { return s.of("{}", fmt.Sprintf(`{"port":%d,"name":"n"}`, i), `{"name":"n"}`) }) + "}"
	},
	"nodes": func(s states) string {
		return s.of("", `,"labels":{"node-role.kubernetes.io/worker":"","node-role.kubernetes.io/Big":"","kubernetes.io/role":"old"}`) + `},"spec":{"unschedulable":` + s.of("true", "false") +
			`},"status":{"conditions":` + s.conditions("Ready", "MemoryPressure") + "}}"
	},
	"jobs.batch": func(s states) string {
		return s.deleted() + `},"spec":{"completions":` + s.of("null", "4") + `,"parallelism":` + s.of("null", "1", "3") + `},"status":{"succeeded":` + s.of("0", "2") + `,"startTime":` + s.time() +
			`,"completionTime":` + s.time() + `,"conditions":` + s.conditions("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet") + "}}"
	},
	"persistentvolumes": func(s states) string {
		return s.deleted() + `},"spec":{"accessModes":` + s.either(`"ReadWriteOnce"`, `"ReadOnlyMany"`, `"ReadWriteMany"`, `"ReadWriteOncePod"`) + `},"status":{"phase":"` + s.of("Bound", "Released") + `"}}`
	},
	"persistentvolumeclaims": func(s states) string {
		return s.deleted() + `},"spec":{"volumeName":"` + s.of("", "v") + `"},"status":{"phase":"` + s.of("Bound", "Lost") + `","accessModes":` + s.either(`"ReadWriteOnce"`, `"ReadOnlyMany"`) + "}}"
	},
	"controllerrevisions.apps": func(s states) string {
		return s.of("", `,"ownerReferences":[{"apiVersion":"v1","kind":"Other","name":"o","uid":"1"},{"apiVersion":"apps/v1","kind":"StatefulSet","name":"W","uid":"2","controller":true}]`,
			`,"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"1","controller":true}]`) + `},"revision":1}`
	},
	"events": func(s states) string {
		return `},"involvedObject":{"kind":"` + s.of("", "Pod") + `","name":"` + s.of("", "Web") + `"},"source":` + s.of("{}", `{"component":"kubelet"}`, `{"component":"kubelet","host":"n1"}`) +
			`,"reportingComponent":"` + s.of("", "controller") + `","reportingInstance":"` + s.of("", "instance") + `"}`
	},
	"certificatesigningrequests.certificates.k8s.io": func(s states) string {
		return `},"status":{"certificate":` + s.of("null", `"AAAA"`) + `,"conditions":` + s.conditions("Approved", "Denied", "Failed") + "}}"
	},
	"podcertificaterequests.certificates.k8s.io": func(s states) string {
		return `},"status":{"conditions":` + s.conditions("Issued", "Denied", "Failed", "Other") + "}}"
	},
	"flowschemas.flowcontrol.apiserver.k8s.io": func(s states) string {
		return `},"status":{"conditions":` + s.conditions("Dangling", "Other") + "}}"
	},
	"storageversionmigrations.storagemigration.k8s.io": func(s states) string {
		return `},"spec":{"resource":{"resource":"things","group":"` + s.of("", "example.com") + `"}},"status":{"conditions":` + s.conditions("Running", "Failed", "Succeeded", "Other") + "}}"
	},
	"storageversions.internal.apiserver.k8s.io": func(s states) string {
		return `},"status":{"storageVersions":` + s.some(5, func(i int) string { return fmt.Sprintf(`{"apiServerID":"s%d","encodingVersion":"v1"}`, i) }) + "}}"
	},
	"resourceclaims.resource.k8s.io": func(s states) string {
		return s.deleted() + `},"status":{` + s.of("", `"allocation":{},`) + `"reservedFor":` + s.some(1, func(int) string { return `{"resource":"pods","name":"p","uid":"u"}` }) + "}}"
	},
	"resourcepoolstatusrequests.resource.k8s.io": func(s states) string {
		return `},"spec":{"driver":"d"}` + s.of("", `,"status":{"poolCount":`+s.of("0", "4")+`,"conditions":`+s.conditions("Complete", "Failed")+`,"pools":`+s.some(3, func(i int) string {
			return s.of("{}", fmt.Sprintf(`{"totalDevices":%d,"allocatedDevices":1,"availableDevices":2,"unavailableDevices":3}`, 4+i), `{"totalDevices":1,"validationError":"e"}`)
		})+"}") + "}"
	},
	"podgroups.scheduling.k8s.io": func(s states) string {
		return `},"spec":{"schedulingPolicy":` + s.of(`{"basic":{}}`, `{"gang":{"minCount":2}}`) + `},"status":{"conditions":` + s.conditions("PodGroupInitiallyScheduled", "DisruptionTarget", "Other") + "}}"
	},
	"compositepodgroups.scheduling.k8s.io": func(s states) string {
		return `},"spec":{"schedulingPolicy":` + s.of(`{"basic":{}}`, `{"gang":{"minGroupCount":2}}`) + "}}"
	},
}

// fillStates stores objects of a type in many states.
func fillStates(t *testing.T, store *sqlstore.Store, s *resources.Type, number int) (objects []*resources.Object) {
	t.Helper()
	random := states{rand.New(rand.NewSource(1))}
	var writes []resources.Write
	for i := range number {
		text := fmt.Sprintf(`{"metadata":{"name":"o%d","creationTimestamp":"2026-01-01T00:00:00Z","resourceVersion":"7"`, i) + inStates[s.ResourceName()](random)
		hub, err := s.DecodeHub(resources.NewObject(s.KeyOf("", ""), resources.Draft{Data: []byte(text)}, 7))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		draft, err := s.NewDraft(t.Context(), hub)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		writes = append(writes, resources.Write{Op: resources.Create, Key: s.KeyOf("", fmt.Sprint("o", i)), Draft: draft})
	}
	objects, err := store.Commit(t.Context(), writes...)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// The computed columns of views have the values that kubectl prints, in both databases, for objects in many states.
func TestViewsHaveComputedValues(t *testing.T) {
	catalog := serveAllTypes(t)
	c, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for kind, o := range map[string]sqlstore.Options{"SQLite": {URL: "sqlite://" + filepath.Join(t.TempDir(), "rowlock.db"), Synchronous: "off"}, "Postgres": {URL: c.URL(), Schema: "v"}} {
		t.Run(kind, func(t *testing.T) {
			o.Logger = slog.New(slog.DiscardHandler)
			store, err := sqlstore.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			if left, err := store.KeepViews(t.Context(), views.Together(views.OfCatalog(catalog))); err != nil || len(left) > 0 {
				t.Fatalf("%v, %v", left, err)
			}
			done := map[string]bool{}
			for s := range catalog.Types {
				if resource := s.ResourceName(); s.Stored() && !done[resource] {
					done[resource] = true
					t.Run(resource, func(t *testing.T) { compareComputed(t, store, o, s) })
				}
			}
		})
	}
}

func compareComputed(t *testing.T, store *sqlstore.Store, o sqlstore.Options, s *resources.Type) {
	resource, columns := s.ResourceName(), []string{"name"}
	for _, c := range views.OfBuiltin(resource).Columns {
		if c.Kind == views.Computed {
			columns = append(columns, c.Name)
		}
	}
	if len(columns) == 1 {
		return
	}
	if inStates[resource] == nil {
		t.Fatalf("%s has computed columns, and no states", resource)
	}
	number := 80
	if resource == "pods" {
		number = 1000
	}
	objects := fillStates(t, store, s, number)
	found, err := sqltest.Ask(t.Context(), o.URL, o.Schema, fmt.Sprintf(`SELECT "%s" FROM "%s"`, strings.Join(columns, `", "`), resource))
	if err != nil || len(found) != number {
		t.Fatalf("%d rows, %v", len(found), err)
	}
	rows := map[string][]string{}
	for _, row := range found {
		rows[row[0]] = row
	}
	distinct := map[string]map[string]bool{}
	for _, object := range objects {
		printed := printedCells(t, s, object)
		for i, column := range columns {
			want, prints := printed[column]
			if !prints || strings.HasSuffix(column, "_time") || strings.HasSuffix(column, "_seconds") || column == "responder_state" {
				continue
			}
			if distinct[column] == nil {
				distinct[column] = map[string]bool{}
			}
			distinct[column][want] = true
			got := strings.ReplaceAll(rows[object.Name][i], "<nil>", "")
			if got != strings.ReplaceAll(want, "<nil>", "") && !strings.HasPrefix(want, "&LabelSelector{") {
				t.Errorf("%s: kubectl prints %q, and the view has %q:\n%s", column, want, rows[object.Name][i], object.Data)
			}
		}
	}
	for column, values := range distinct {
		if len(values) < 2 {
			t.Errorf("all objects have the same %s", column)
		}
	}
}

// printedCells returns what kubectl prints of an object, by the names that the columns have in views.
func printedCells(t *testing.T, s *resources.Type, object *resources.Object) map[string]string {
	t.Helper()
	hub, err := s.DecodeHub(object)
	if err != nil {
		t.Fatal(err)
	}
	table, err := s.Table.ConvertToTable(t.Context(), hub, nil)
	if err != nil {
		t.Fatal(err)
	}
	printed := map[string]string{}
	for i, definition := range table.ColumnDefinitions {
		printed[viewColumn(s.ResourceName(), definition.Name)] = printedCell(definition, table.Rows[0].Cells[i])
	}
	return printed
}

// printedCell returns a cell without the words for missing values, and without the time since the last restart.
func printedCell(c metav1.TableColumnDefinition, cell any) string {
	text := fmt.Sprint(cell)
	switch {
	case c.Name == "Restarts":
		text, _, _ = strings.Cut(text, " ")
	case text == "<none>", text == "<unset>", text == "<unknown>", text == "-":
		return ""
	}
	return text
}
