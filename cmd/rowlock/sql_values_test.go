package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"

	"github.com/rowlock/rowlock/resources/views"
)

// moreStatus is the status that controllers and kubelets would write of objects of e2e/testdata/types, which are all named e2e, for columns that show it.
var moreStatus = map[string]string{
	"/api/v1/nodes/e2e/status": `{"conditions":[{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"True"}],"nodeInfo":{"kubeletVersion":"v1.37.0","osImage":"Debian","kernelVersion":"6.1","containerRuntimeVersion":"containerd://2"},
		"addresses":[{"type":"Hostname","address":"h"},{"type":"InternalIP","address":"10.0.0.1"},{"type":"ExternalIP","address":"192.0.2.4"},{"type":"InternalIP","address":"fd00::1"}]}`,
	"/api/v1/namespaces/default/pods/e2e/status": `{"phase":"Running","podIP":"10.1.1.1","podIPs":[{"ip":"10.1.1.1"}],"nominatedNodeName":"other","qosClass":"BestEffort"}`,
	"/api/v1/namespaces/default/pods/sidecar/status": `{"phase":"Running","conditions":[{"type":"Initialized","status":"True"}],
		"initContainerStatuses":[{"name":"first","restartCount":4,"state":{"terminated":{"exitCode":0}},"ready":true,"image":"x","imageID":""},
			{"name":"beside","restartCount":2,"started":true,"ready":true,"state":{"running":{}},"image":"x","imageID":""}],
		"containerStatuses":[{"name":"a","restartCount":1,"ready":true,"state":{"running":{}},"image":"x","imageID":"",
			"lastState":{"terminated":{"exitCode":1,"finishedAt":"2026-01-02T03:04:05Z"}}},
			{"name":"b","restartCount":3,"ready":false,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"image":"x","imageID":""}]}`,
	"/api/v1/namespaces/default/pods/initializing/status": `{"phase":"Pending","conditions":[{"type":"Initialized","status":"False"}],
		"initContainerStatuses":[{"name":"first","restartCount":5,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"ready":false,"image":"x","imageID":""}],
		"containerStatuses":[{"name":"a","restartCount":0,"ready":false,"state":{"waiting":{"reason":"PodInitializing"}},"image":"x","imageID":""}]}`,
	"/api/v1/namespaces/default/persistentvolumeclaims/bound/status":              `{"phase":"Bound","accessModes":["ReadWriteOncePod","ReadOnlyMany","ReadWriteOnce"],"capacity":{"storage":"2Gi"}}`,
	"/apis/batch/v1/namespaces/default/jobs/several/status":                       `{"succeeded":2,"active":1,"startTime":"2026-01-02T03:04:05Z"}`,
	"/api/v1/persistentvolumes/e2e/status":                                        `{"phase":"Failed","reason":"Because"}`,
	"/api/v1/namespaces/default/replicationcontrollers/e2e/status":                `{"replicas":4,"readyReplicas":3}`,
	"/apis/apps/v1/namespaces/default/deployments/e2e/status":                     `{"replicas":4,"readyReplicas":3,"updatedReplicas":2,"availableReplicas":1}`,
	"/apis/apps/v1/namespaces/default/replicasets/e2e/status":                     `{"replicas":4,"readyReplicas":3}`,
	"/apis/apps/v1/namespaces/default/statefulsets/e2e/status":                    `{"replicas":4,"readyReplicas":3}`,
	"/apis/apps/v1/namespaces/default/daemonsets/e2e/status":                      `{"desiredNumberScheduled":4,"currentNumberScheduled":3,"numberReady":2,"updatedNumberScheduled":1,"numberAvailable":1}`,
	"/apis/batch/v1/namespaces/default/cronjobs/e2e/status":                       `{"active":[{"kind":"Job","name":"x","namespace":"default"}]}`,
	"/apis/policy/v1/namespaces/default/poddisruptionbudgets/e2e/status":          `{"disruptionsAllowed":2}`,
	"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/e2e/status": `{"currentReplicas":3,"desiredReplicas":4}`,
	"/apis/storage.k8s.io/v1/volumeattachments/e2e/status":                        `{"attached":true}`,
}

// moreObjects have values that the objects of e2e/testdata/types lack.
var moreObjects = map[string][]string{
	"/apis/storage.k8s.io/v1/csinodes":      {`{"metadata":{"name":"two"},"spec":{"drivers":[{"name":"a","nodeID":"a"},{"name":"b","nodeID":"b"}]}}`},
	"/apis/storage.k8s.io/v1/csidrivers":    {`{"metadata":{"name":"full.example"},"spec":{"podInfoOnMount":true,"tokenRequests":[{"audience":"a"},{"audience":"b"}],"volumeLifecycleModes":["Ephemeral","Persistent"]}}`},
	"/api/v1/namespaces/default/configmaps": {`{"metadata":{"name":"both"},"data":{"a":"1"},"binaryData":{"b":"AA=="}}`},
	"/api/v1/nodes":                         {`{"metadata":{"name":"cordoned","labels":{"node-role.kubernetes.io/worker":"","node-role.kubernetes.io/control-plane":"","kubernetes.io/role":"Old"}},"spec":{"unschedulable":true}}`},
	"/api/v1/namespaces/default/pods": {`{"metadata":{"name":"sidecar"},"spec":{"initContainers":[{"name":"first","image":"x"},{"name":"beside","image":"x","restartPolicy":"Always"}],
		"containers":[{"name":"a","image":"x"},{"name":"b","image":"x"}]}}`,
		`{"metadata":{"name":"initializing"},"spec":{"initContainers":[{"name":"first","image":"x"}],"containers":[{"name":"a","image":"x"}]}}`},
	"/api/v1/persistentvolumes":                         {`{"metadata":{"name":"several"},"spec":{"accessModes":["ReadWriteMany","ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/x"}}}`},
	"/api/v1/namespaces/default/persistentvolumeclaims": {`{"metadata":{"name":"bound"},"spec":{"volumeName":"several","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`},
	"/apis/batch/v1/namespaces/default/jobs": {`{"metadata":{"name":"several"},"spec":{"parallelism":3,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"x"}]}}}}`,
		`{"metadata":{"name":"suspended"},"spec":{"completions":4,"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"x"}]}}}}`},
	"/api/v1/namespaces/default/services": {`{"metadata":{"name":"outside"},"spec":{"type":"NodePort","ports":[{"name":"a","port":80,"nodePort":30080},{"name":"b","port":53,"protocol":"UDP"}]}}`, `{"metadata":{"name":"headless"},"spec":{"clusterIP":"None","ports":[{"port":1}]}}`,
		`{"metadata":{"name":"out"},"spec":{"type":"ExternalName","externalName":"x.example"}}`},
	"/apis/events.k8s.io/v1/namespaces/default/events": {`{"metadata":{"name":"series"},"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"x","reportingInstance":"y","action":"a","reason":"R",
		"type":"Normal","note":"the note","regarding":{"kind":"Pod","namespace":"default","name":"e2e"},"series":{"count":7,"lastObservedTime":"2026-01-02T03:04:05.000000Z"}}`},
	"/apis/policy/v1/namespaces/default/poddisruptionbudgets": {`{"metadata":{"name":"percent"},"spec":{"maxUnavailable":"20%","selector":{"matchLabels":{"a":"b"}}}}`},
	"/apis/networking.k8s.io/v1/namespaces/default/ingresses": {`{"metadata":{"name":"classed"},"spec":{"ingressClassName":"nginx","rules":[{"host":"a.example"},{"host":"b.example"}]}}`},
}

// listedTypes returns the types that can be listed, each once, by the path of its collection.
func listedTypes(t *testing.T, client kubernetes.Interface) (paths map[string]string, kinds map[schema.GroupVersionKind]metav1.APIResource) {
	t.Helper()
	_, lists, err := client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	paths, kinds = map[string]string{}, map[schema.GroupVersionKind]metav1.APIResource{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			resource := gv.WithResource(r.Name).GroupResource().String()
			if !slices.Contains(r.Verbs, "list") || paths[resource] != "" || resource == "events.events.k8s.io" || resource == "componentstatuses" {
				continue
			}
			paths[resource] = collection(gv, r.Name, "")
			kinds[gv.WithKind(r.Kind)] = r
		}
	}
	return paths, kinds
}

func collection(gv schema.GroupVersion, resource, namespace string) string {
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/v1"
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + resource
}

// fillAll creates the objects of e2e/testdata/types and moreObjects.
func fillAll(t *testing.T, client kubernetes.Interface, kinds map[schema.GroupVersionKind]metav1.APIResource) {
	t.Helper()
	files, err := filepath.Glob("../../e2e/testdata/types/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(strings.ReplaceAll(string(text), "NAMESPACE", "default")), 4096); ; {
			o := &unstructured.Unstructured{}
			if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			r, ok := kinds[o.GroupVersionKind()]
			if !ok {
				continue
			}
			namespace := ""
			if r.Namespaced {
				namespace = "default"
			}
			body, err := o.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			send(t, client, "POST", collection(o.GroupVersionKind().GroupVersion(), r.Name, namespace), string(body))
		}
	}
	for path, bodies := range moreObjects {
		for _, body := range bodies {
			send(t, client, "POST", path, body)
		}
	}
	for path, status := range moreStatus {
		send(t, client, "PATCH", path, `{"status":`+status+`}`)
	}
}

// worded are the cells that kubectl prints in words of its own.
var worded = map[string]func(cell string) string{
	"apiservices.apiregistration.k8s.io service":              func(cell string) string { return strings.TrimPrefix(cell, "local") },
	"customresourcedefinitions.apiextensions.k8s.io versions": func(cell string) string { return strings.TrimSuffix(cell, "(storage)") },
	"devicetaintrules.resource.k8s.io timeadded":              nil, // the time since
	"pods restarts": func(cell string) string { // and the time since the last one
		number, _, _ := strings.Cut(cell, " ")
		return number
	},
	"events count": func(cell string) string { return strings.TrimPrefix(cell, "1") }, // of events without a count
}

// notInViews are the columns of kubectl that views have under other names.
var notInViews = []string{
	"certificatesigningrequests.certificates.k8s.io requestedduration", // requested_seconds
	"cronjobs.batch last_schedule",                                     // last_schedule_time
	"customresourcedefinitions.apiextensions.k8s.io group",             // group_name
	"events first_seen",                                                // first_time
	"events last_seen",                                                 // last_time
	"events object",                                                    // printed_object
	"jobs.batch duration",                                              // duration_seconds
	"resourcepoolstatusrequests.resource.k8s.io completed",             // completed_time
	"resourcequotas limit",                                             // limits
}

// plain returns a value for the comparison: kubectl prints words for missing values.
func plain(v any, kind views.Kind) string {
	text := fmt.Sprint(v)
	switch {
	case v == nil && kind == views.Bool:
		return "false"
	case v == nil, slices.Contains([]string{"<none>", "<unset>", "<unknown>", "N/A", "-"}, text):
		return ""
	case kind == views.Bool && text == "0":
		return "false"
	case kind == views.Bool && text == "1":
		return "true"
	}
	return strings.ToLower(text)
}

var noLetters = regexp.MustCompile(`[^a-z0-9]+`)

// columnOfView returns the name that a column of kubectl has in a view; "" for those that all views have.
func columnOfView(title string) string {
	switch name := strings.Trim(noLetters.ReplaceAllString(strings.ToLower(title), "_"), "_"); name {
	case "name", "age", "created_at":
		return ""
	case "status": // all views have another column of this name
		return "printed_status"
	case "port_s":
		return "ports"
	default:
		return name
	}
}

// The columns of views have the values that kubectl prints in the columns of the same names, for objects of each built-in type.
func TestViewsHaveValues(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--data-dir", dir, "--runtime-config", "api/all=true", "--disable-admission-plugins", "ServiceAccount")
	client := p.client(t)
	paths, kinds := listedTypes(t, client)
	fillAll(t, client, kinds)
	compared, types := 0, 0
	var missing []string
	for resource, path := range paths {
		columns := map[string]views.Kind{}
		for _, c := range views.OfBuiltin(resource).Columns {
			columns[c.Name] = c.Kind
		}
		if len(columns) > 0 {
			types++
		}
		rows := map[string]map[string]any{}
		var all []map[string]any
		if err := json.Unmarshal([]byte(runs(t, "sql", "--data-dir", dir, "-o", "json", `SELECT * FROM "`+resource+`"`)), &all); err != nil {
			t.Fatal(err)
		}
		for _, row := range all {
			rows[fmt.Sprint(row["namespace"], "/", row["name"])] = row
		}
		var table metav1.Table
		answer, err := client.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
		if err := errors.Join(err, json.Unmarshal(answer, &table)); err != nil {
			t.Fatal(err)
		}
		for _, c := range table.ColumnDefinitions {
			if name := columnOfView(c.Name); name != "" && columns[name] == "" {
				missing = append(missing, resource+" "+name)
			}
		}
		for _, row := range table.Rows {
			var o metav1.PartialObjectMetadata
			if err := json.Unmarshal(row.Object.Raw, &o); err != nil {
				t.Fatal(err)
			}
			for i, c := range table.ColumnDefinitions {
				name := columnOfView(c.Name)
				kind, has := columns[name]
				how, special := worded[resource+" "+name]
				if !has || kind == views.JSON || special && how == nil {
					continue
				}
				compared++
				cell, value := plain(row.Cells[i], kind), plain(rows[o.Namespace+"/"+o.Name][name], kind)
				if cell != value && (!special || how(cell) != value) {
					t.Errorf("%s %s/%s: kubectl prints %q under %q, and the view has %q", resource, o.Namespace, o.Name, row.Cells[i], c.Name, value)
				}
			}
		}
	}
	if diff := cmp.Diff(notInViews, slices.Sorted(slices.Values(missing))); diff != "" {
		t.Errorf("kubectl has columns that views do not have (-said +found):\n%s", diff)
	}
	const last = "2026-01-02T03:04:05.000000Z" // kubectl prints the time since
	if text := runs(t, "sql", "--data-dir", dir, "-o", "csv", "SELECT last_time FROM events WHERE name = 'series'"); !strings.Contains(text, last) {
		t.Errorf("the last time of a series is %q, want %s", text, last)
	}
	if types < 60 || compared < 450 {
		t.Errorf("%d values of %d types were compared", compared, types)
	}
	p.end()
}
