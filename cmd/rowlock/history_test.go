package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

const shopMap = "/api/v1/namespaces/shop/configmaps/a"

// historian is a server with an object history, in which a namespaced ConfigMap was created with 1, and changed to 2.
type historian struct {
	*process
	client  kubernetes.Interface
	dir     string
	created string // the revision of the ConfigMap
}

func startHistorian(t *testing.T, place storePlace, more ...string) historian {
	t.Helper()
	p := start(t, place.args(append(more, "--object-history", "7d,20")...)...)
	h := historian{process: p, client: p.client(t), dir: place.dir}
	send(t, h.client, "POST", "/api/v1/namespaces", `{"metadata":{"name":"shop"}}`)
	send(t, h.client, "POST", "/api/v1/namespaces/shop/configmaps", `{"metadata":{"name":"a"},"data":{"v":"1"}}`)
	h.created = h.value(t, "metadata.resourceVersion")
	send(t, h.client, "PATCH", shopMap, `{"data":{"v":"2"}}`)
	return h
}

// value returns v of the ConfigMap, or its resourceVersion.
func (h historian) value(t *testing.T, field string) string {
	t.Helper()
	m, err := h.client.CoreV1().ConfigMaps("shop").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if field == "v" {
		return m.Data["v"]
	}
	return m.ResourceVersion
}

// does runs a command on the server that has to succeed.
func (h historian) does(t *testing.T, args ...string) string {
	t.Helper()
	return runs(t, append(args, "--data-dir", h.dir)...)
}

// refuses runs a command that has to fail with a reason.
func (h historian) refuses(t *testing.T, why string, args ...string) {
	t.Helper()
	code, stdout, stderr := command(t, append(args, "--data-dir", h.dir)...)
	if code != exitFailure || !strings.Contains(stderr, why) || strings.Contains(stdout, "created") || strings.Contains(stdout, "updated") {
		t.Errorf("%q: exit code %d, %s%s; want %q", args, code, stdout, stderr, why)
	}
}

// history returns the rows of an object in the namespace, without the times and the uids.
func (h historian) history(t *testing.T, object string) []string {
	t.Helper()
	return h.rows(t, object, "-n", "shop")
}

// rows returns the rows of an object that is given in full, without the requests, too.
func (h historian) rows(t *testing.T, object ...string) (rows []string) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(h.does(t, append([]string{"history"}, object...)...)), "\n")[1:] {
		columns := regexp.MustCompile(` {3,}`).Split(line, -1)
		agent, _, _ := strings.Cut(columns[5], "/")
		rows = append(rows, strings.Join([]string{columns[2], columns[4], agent, columns[7]}, " "))
	}
	return rows
}

// A shell completes names from the history; for undelete, those of deleted objects.
func TestHistoryCompletion(t *testing.T) {
	h := startHistorian(t, storePlace{dir: t.TempDir()})
	defer h.end()
	send(t, h.client, "POST", "/api/v1/namespaces/shop/configmaps", `{"metadata":{"name":"gone"}}`)
	send(t, h.client, "DELETE", "/api/v1/namespaces/shop/configmaps/gone", "")
	for args, want := range map[string]string{
		"history deploym":              ":4\n",
		"history -n shop cm/g":         "cm/gone\n:4\n",
		"history cm/a":                 ":4\n",
		"undelete -n shop configmaps/": "configmaps/gone\n:4\n",
		"undelete -n shop nothings/":   ":4\n",
		"history -n shop cm/a ''":      ":4\n",
		"restore -n shop cm/a":         "cm/a\n:0\n",
		"restore cm/a":                 ":0\n",
		"restore -n sh -n op cm/a":     ":0\n",
		"restore /dev":                 ":0\n",
	} {
		if got := completes(t, append([]string{strings.Fields(args)[0], "--data-dir", h.dir}, strings.Fields(args)[1:]...)...); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	if got := completes(t, "history", "--data-dir", t.TempDir(), "cm/"); got != ":4\n" {
		t.Errorf("without a server: %q", got)
	}
}

// The history of an object shows who wrote it and what changed. The object can be restored to an earlier write, and after its deletion;
// each of these is a normal write, which the history has.
func TestHistoryCommands(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		h := startHistorian(t, empty(t))
		test := filepath.Base(os.Args[0]) // as client-go calls itself here
		created, changed := "Create kubernetes-admin "+test+" -", "Update kubernetes-admin "+test+" data.v"
		wants := func(want ...string) {
			t.Helper()
			for _, object := range []string{"cm/a", "ConfigMap/a", "configmaps/a", "configmap/a", "configmaps.v1./a"} {
				if got := h.history(t, object); !slices.Equal(got, want) {
					t.Errorf("the history of %s is %q, want %q", object, got, want)
				}
			}
		}
		wants(changed, created)
		send(t, h.client, "PATCH", "/api/v1/namespaces/shop/status", `{"status":{"conditions":[{"type":"Tried","status":"True"}]}}`)
		if shop := h.does(t, "history", "ns/shop"); !strings.Contains(shop, "   Update      patch status   kubernetes-admin ") || !strings.Contains(shop, "   Create      create         kubernetes-admin ") ||
			!strings.Contains(h.does(t, "history", "ns/shop", "--diff"), "\nRequest: patch status\nOperation: Update namespaces/shop\n") {
			t.Errorf("the requests are shown as\n%s", shop)
		}
		diff := h.does(t, "history", "cm/a", "-n", "shop", "--diff")
		if !strings.Contains(diff, "\n-  v: \"1\"\n+  v: \"2\"\n") || !strings.Contains(diff, "\n+data:\n+  v: \"1\"\n") {
			t.Errorf("the changes are shown as\n%s", diff)
		}
		if one := h.does(t, "history", "cm/a", "-n", "shop", "--diff", "--revision", h.created); !strings.HasPrefix(one, "revision "+h.created+"\n") ||
			!strings.HasSuffix(diff, "\n"+one) || strings.Count(one, "revision ") != 1 {
			t.Errorf("one change is shown as\n%s", one)
		}

		restore := []string{"restore", "cm/a", "-n", "shop", "--revision", h.created}
		if out := h.does(t, append(restore, "--dry-run")...); out != "configmaps/shop/a: would be updated\n" || h.value(t, "v") != "2" {
			t.Errorf("the dry run says %s", out)
		}
		if out := h.does(t, restore...); out != "configmaps/shop/a: updated\n" || h.value(t, "v") != "1" {
			t.Errorf("the object is %s after %s", h.value(t, "v"), out)
		}
		if out := h.does(t, restore...); out != "configmaps/shop/a: unchanged\n" {
			t.Errorf("the second one says %s", out)
		}
		restored := "Update kubernetes-admin rowlock data.v"
		wants(restored, changed, created)

		undelete := []string{"undelete", "configmap/a", "-n", "shop"}
		h.refuses(t, "no deletion of configmaps/a in the namespace shop", undelete...)
		send(t, h.client, "DELETE", shopMap, "")
		if diff := h.does(t, "history", "cm/a", "-n", "shop", "--diff"); !strings.Contains(strings.Split(diff, "\nrevision ")[0], "\n-data:\n-  v: \"1\"\n") {
			t.Errorf("the deletion does not show what was deleted:\n%s", diff)
		}
		if out := h.does(t, append(undelete, "--dry-run")...); out != "configmaps/shop/a: would be created\n" {
			t.Errorf("the dry run says %s", out)
		}
		if out := h.does(t, undelete...); out != "configmaps/shop/a: created\n" || h.value(t, "v") != "1" {
			t.Errorf("the object is %s after %s", h.value(t, "v"), out)
		}
		h.refuses(t, "there is an object of this name", undelete...)
		wants("Create kubernetes-admin rowlock -", "Delete kubernetes-admin "+test+" -", restored, changed, created)

		h.refuses(t, "the history has nothing of configmaps/b in the namespace shop", "history", "cm/b", "-n", "shop")
		h.refuses(t, "the history has nothing of configmaps/a in the namespace default", "history", "cm/a")
		h.refuses(t, "the history has no write of configmaps/a in the namespace shop with revision 1\n", "history", "cm/a", "-n", "shop", "--revision", "1")
		h.refuses(t, "by --revision\n", "restore", "cm/a", "-n", "shop")
		h.refuses(t, "is one of configmaps/a", "restore", "cm/b", "-n", "shop", "--revision", h.created)
		h.refuses(t, `revisions.history.rowlock.dev "999999999" not found`, "restore", "cm/a", "-n", "shop", "--revision", "999999999")
		h.refuses(t, "the server does not serve things", "undelete", "things/a")
		h.end()
	})
}

// A user who may get an object may read its history, by the predefined roles. The commands write as the user, with the user's permissions.
func TestHistoryOfUsers(t *testing.T) {
	h := startHistorian(t, storePlace{dir: filepath.Join(t.TempDir(), "data")})
	jane := filepath.Join(t.TempDir(), "jane")
	if err := os.WriteFile(jane, []byte(must(t, "kubeconfig", "--data-dir", h.dir, "--user", "jane")), 0o600); err != nil {
		t.Fatal(err)
	}
	as := func(args ...string) []string { return append(args, "-n", "shop", "--kubeconfig", jane) }
	may := func(verbs string) {
		t.Helper()
		send(t, h.client, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles",
			fmt.Sprintf(`{"metadata":{"name":%q},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["%[1]s"]}]}`, verbs))
		send(t, h.client, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings", fmt.Sprintf(`{"metadata":{"name":%q},
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":%[1]q},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"jane"}]}`, verbs))
	}
	h.refuses(t, `User "jane" cannot read this: they have to be allowed to get configmaps "a" in the namespace "shop"`, as("history", "cm/a")...)
	may("get")
	if out := h.does(t, as("history", "cm/a", "--diff")...); !strings.Contains(out, "+  v: \"2\"\n") {
		t.Errorf("who may get the object sees %s", out)
	}
	h.refuses(t, `User "jane" cannot read this`, as("history", "serviceaccount/default")...)
	restore := as("restore", "cm/a", "--revision", h.created)
	h.refuses(t, `User "jane" cannot update resource "configmaps"`, restore...)
	may("update")
	h.does(t, restore...)
	if h.value(t, "v") != "1" || !strings.HasPrefix(h.history(t, "cm/a")[0], "Update jane rowlock ") {
		t.Errorf("the object is %s, and its history %q", h.value(t, "v"), h.history(t, "cm/a"))
	}
	send(t, h.client, "DELETE", shopMap, "")
	h.refuses(t, `User "jane" cannot create resource "configmaps"`, as("undelete", "cm/a")...)
	h.end()
}

// Text from objects and requests neither controls the reader's terminal, nor adds rows.
func TestHistoryOnATerminal(t *testing.T) {
	r := &historyRevision{Paths: []string{"spec[\x1b[2J]", "spec[a\nb\tc]"}}
	r.Name, r.Requester.User, r.Requester.UserAgent = "7", "ann\u009b2J", "evil\ttabs\u202e"
	var out strings.Builder
	if err := printHistory([]*historyRevision{r}, &out); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(rows) != 2 || strings.ContainsAny(out.String(), "\x1b\u009b\u202e") || !strings.Contains(rows[1], "   evil tabs   ") {
		t.Errorf("it is shown as %q", out.String())
	}
}

// A Secret is restored if its values are kept, and never with hashes in their place. Without an object history nothing is restored.
func TestHistoryOfSecrets(t *testing.T) {
	const secrets, secret = "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/secrets/s"
	dir := filepath.Join(t.TempDir(), "data")
	h := startHistorian(t, storePlace{dir: dir})
	send(t, h.client, "POST", secrets, `{"metadata":{"name":"s"},"stringData":{"p":"hunter2"}}`)
	send(t, h.client, "DELETE", secret, "")
	const why = "hashes in the place of the values of Secrets"
	h.refuses(t, why, "undelete", "secret/s")
	if out := h.does(t, "history", "secret/s", "--diff"); !strings.Contains(out, "+  p: hmac-sha256:") || strings.Contains(out, "aHVudGVyMg") {
		t.Errorf("the history of a Secret: %s", out)
	}
	h.end()

	h.process = start(t, "--data-dir", dir, "--object-history", "7d,20", "--object-history-secrets")
	h.client = h.process.client(t)
	h.refuses(t, why, "undelete", "secret/s")
	send(t, h.client, "POST", secrets, `{"metadata":{"name":"s"},"stringData":{"p":"hunter3"}}`)
	send(t, h.client, "DELETE", secret, "")
	h.does(t, "undelete", "secret/s")
	if s, err := h.client.CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{}); err != nil || string(s.Data["p"]) != "hunter3" {
		t.Errorf("the Secret is %v, %v", s.Data, err)
	}
	h.end()

	h.process = start(t, "--data-dir", dir)
	h.client = h.process.client(t)
	h.refuses(t, "the server has no object history", "history", "secret/s")
	groups, err := h.client.Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups.Groups {
		if strings.Contains(g.Name, "rowlock") {
			t.Errorf("without an object history there is the group %s", g.Name)
		}
	}
	h.end()
}

// rival is a server with the history of one ConfigMap, on which another writer is faster. refusals has the reasons with which it refuses
// requests about the ConfigMap, by their number from 1; did records the requests.
func rival(t *testing.T, did *[]string, refusals map[int]metav1.StatusReason) *objectHistory {
	t.Helper()
	const revision = `{"metadata":{"name":"7"},"object":{"resource":"configmaps","name":"a","uid":"u"},"state":{"after":
		{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","uid":"u"},"data":{"v":"1"}}}}`
	const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"9"}}`
	fixed := map[string]string{
		"/api/v1": `{"resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true}]}`,
		"/apis/history.rowlock.dev/v1/namespaces/shop/revisions/7": revision,
		"/apis/history.rowlock.dev/v1/namespaces/shop/trash":       `{"items":[` + revision + `]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer, ok := fixed[r.URL.Path]; ok {
			fmt.Fprint(w, answer)
			return
		}
		*did = append(*did, r.Method+r.URL.Query().Get("dryRun"))
		if reason, ok := refusals[len(*did)]; ok {
			w.WriteHeader(http.StatusConflict) // the client uses the reason
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":%q,"code":409}`, reason)
			return
		}
		fmt.Fprint(w, object)
	}))
	t.Cleanup(server.Close)
	return &objectHistory{client: &adminClient{host: server.URL, client: server.Client()}, resource: schema.GroupResource{Resource: "configmaps"}, namespaced: true, namespace: "shop", name: "a"}
}

// A write by another client between the dry run and the write is preserved.
func TestHistoryIsNotWrittenOverOthers(t *testing.T) {
	var did []string
	check := func(out string, err error, want string, asked ...string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("it says %q and %v, want %q", out, err, want)
		}
		if !slices.Equal(did, asked) {
			t.Errorf("it asked for %q, want %q", did, asked)
		}
		did = nil
	}
	var out strings.Builder
	err := rival(t, &did, map[int]metav1.StatusReason{3: metav1.StatusReasonConflict}).restore(t.Context(), 7, false, &out)
	check(out.String(), err, "it has changed meanwhile", "GET", "PUTAll", "PUT")
	out.Reset()
	gone := map[int]metav1.StatusReason{1: metav1.StatusReasonNotFound, 3: metav1.StatusReasonAlreadyExists}
	err = rival(t, &did, gone).restore(t.Context(), 7, false, &out)
	check(out.String(), err, "it has changed meanwhile", "GET", "POSTAll", "POST")
	out.Reset()
	err = rival(t, &did, gone).undelete(t.Context(), 0, false, &out)
	check(out.String(), err, "there is an object of this name", "GET", "POSTAll", "POST", "GET")
}

// An argument that cannot name an object is a usage error.
func TestHistoryUsage(t *testing.T) {
	for _, args := range []string{"history", "history a", "history a/b/c", "history /b", "undelete a/", "undelete a/b c/d", "restore a --revision 1", "restore a/b --revision -1",
		"restore a/b --revision 1 --object a/b", "restore a/b --revision 1 -n a,b", "history a/b --colour"} {
		if code, _, stderr := command(t, append(strings.Fields(args), "--data-dir", t.TempDir())...); code != exitUsage {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
	// With --revision the argument is an object and not a file, whatever the number.
	code, _, stderr := command(t, "restore", "cm/q", "--revision", "0", "--data-dir", t.TempDir())
	if code != exitUsage || !strings.Contains(stderr, "--revision 0 is no number of a write") {
		t.Errorf("the revision 0: exit code %d, %s", code, stderr)
	}
}

// The YAML of a deeply nested object would not fit into memory.
func TestHistoryOfDeepObjects(t *testing.T) {
	var deep any = strings.Split(strings.Repeat("0,", 5000), ",")
	for range 9000 {
		deep = []any{deep}
	}
	if lines, err := yamlLines(storedObject{"a": deep}); !apierrors.IsNotAcceptable(err) {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	if lines, err := yamlLines(storedObject{"a": []any{"<"}}); err != nil || !slices.Equal(lines, []string{"a:\n", "- <\n", ""}) {
		t.Errorf("%q, %v", lines, err)
	}
}
