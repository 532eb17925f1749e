package main

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/sqltest"
)

// database returns the URL and the schema of a place.
func (s storePlace) database() (url, schema string) {
	if len(s.flags) == 0 {
		return "sqlite://" + filepath.Join(s.dir, "rowlock.db"), ""
	}
	return s.flags[1], s.flags[3]
}

const certificates = "/apis/cert-manager.io/v1/namespaces/default/certificates"

// certificateDefinition defines the custom resources of a query in docs/sql.md.
const certificateDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"certificates.cert-manager.io"},
	"spec":{"group":"cert-manager.io","scope":"Namespaced","names":{"plural":"certificates","kind":"Certificate"},"versions":[{"name":"v1","served":true,"storage":true,
	"additionalPrinterColumns":[{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"},{"name":"Secret","type":"string","jsonPath":".spec.secretName"},
		{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"},{"name":"All","type":"string","jsonPath":".spec.dnsNames[*]"},
		{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}],
	"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// fillForQueries creates at least one object for each query of docs/sql.md.
func fillForQueries(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	const core = "/api/v1/namespaces/default/"
	const gone = `"ownerReferences":[{"apiVersion":"gone.example.com/v1","kind":"Gone","name":"g","uid":"0000-1"}]`
	post := func(path, body string) { t.Helper(); send(t, client, "POST", path, body) }
	post(crds, certificateDefinition)
	post(certificates, `{"apiVersion":"cert-manager.io/v1","kind":"Certificate","metadata":{"name":"soon"},"spec":{"secretName":"tls"},
		"status":{"notAfter":"`+time.Now().Add(10*24*time.Hour).UTC().Format(time.RFC3339)+`","conditions":[{"type":"Issuing","status":"False"},{"type":"Ready","status":"True","message":"up to date"}]}}`)
	post("/api/v1/nodes", `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"}}`)
	for _, claim := range []string{"used", "unused"} {
		post(core+"persistentvolumeclaims", `{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"`+claim+`"},
			"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
	}
	post(core+"pods", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p1"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"localhost:5000/nginx"}],
		"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"used"}}]}}`)
	post(core+"pods", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p2"},"spec":{"containers":[{"name":"c","image":"nginx:1.27"}]}}`)
	post(core+"configmaps", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"orphan",`+gone+`}}`)
	post(core+"configmaps", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"stuck","finalizers":["example.com/stuck"]}}`)
	send(t, client, "DELETE", core+"configmaps/stuck", "")
	post(core+"secrets", `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hunter2"}},"stringData":{"password":"hunter2"}}`)
	post("/apis/apps/v1/namespaces/default/deployments", `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web"},"spec":{"replicas":2,
		"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"nginx"}]}}}}`)
}

// untilNative queries the database until it has the wanted answer: servers create views a moment after the types.
func untilNative(t *testing.T, place storePlace, statement string, is func(rows [][]string, err error) bool) {
	t.Helper()
	url, schema := place.database()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		rows, err := sqltest.Ask(t.Context(), url, schema, statement)
		if is(rows, err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %q, %v", statement, rows, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// documentedQueries are those of docs/sql.md, each with the database that it is limited to, if any.
func documentedQueries(t *testing.T) (queries [][2]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```sql ?([a-z]*)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		queries = append(queries, [2]string{m[1], m[2]})
	}
	return queries
}

// Every query of docs/sql.md has a result: by rowlock sql beside a server and without one, on a backup, and in the database itself, where views
// come and go with the definitions of custom resources.
func TestSQL(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		place := empty(t)
		p := start(t, place.args("--sql-views", "--object-history", "7d,20", "--disable-admission-plugins", "ServiceAccount")...)
		client := p.client(t)
		fillForQueries(t, client)
		untilNative(t, place, `SELECT ready, secret, printed_status, owner FROM "certificates.cert-manager.io"`, func(rows [][]string, err error) bool {
			return err == nil && len(rows) == 1 && slices.Equal(rows[0], []string{"True", "tls", "up to date", "<nil>"})
		})
		url, schema := place.database()
		own := "sqlite"
		if schema != "" {
			own = "postgres"
		}
		queries := documentedQueries(t)
		if len(queries) < 15 {
			t.Fatalf("docs/sql.md has %d queries", len(queries))
		}
		for _, q := range queries {
			if q[0] != "postgres" {
				if out := runs(t, place.args("sql", "-o", "csv", q[1])...); strings.Count(out, "\n") < 2 {
					t.Errorf("%s: %s", q[1], out)
				}
			}
			if q[0] == "" || q[0] == own {
				if rows, err := sqltest.Ask(t.Context(), url, schema, q[1]); err != nil || len(rows) == 0 {
					t.Errorf("in the database: %s: %q, %v", q[1], rows, err)
				}
			}
		}
		if out := runs(t, place.args("verify")...); !strings.Contains(out, "nothing is wrong") {
			t.Error(out)
		}
		looksAtOutputs(t, place)
		send(t, client, "DELETE", crds+"/certificates.cert-manager.io", "")
		untilNative(t, place, `SELECT * FROM "certificates.cert-manager.io"`, func(_ [][]string, err error) bool { return err != nil })
		file := filepath.Join(t.TempDir(), "backup")
		runs(t, place.args("backup", file)...)
		p.end()
		for _, args := range [][]string{place.args(), {"--backup", file}} {
			if out := runs(t, append([]string{"sql", "-o", "csv", "SELECT name FROM pods ORDER BY name"}, args...)...); out != "name\np1\np2\n" {
				t.Errorf("without a server: %q", out)
			}
		}
		p = start(t, place.args()...)
		untilNative(t, place, `SELECT * FROM pods`, func(_ [][]string, err error) bool { return err != nil })
		p.end()
	})
}

// looksAtOutputs checks the formats of rows, and the limits of a query.
func looksAtOutputs(t *testing.T, place storePlace) {
	sql := func(args ...string) (int, string, string) {
		return command(t, place.args(append([]string{"sql"}, args...)...)...)
	}
	for _, format := range []string{"table", "csv", "json"} {
		for _, query := range []string{"SELECT * FROM secrets", "SELECT * FROM all_objects", "SELECT * FROM objects", "SELECT * FROM all_changes"} {
			if code, stdout, stderr := sql("-o", format, query); code != 0 || strings.Contains(stdout, "hunter2") || strings.Contains(stdout, "aHVudGVyMg") {
				t.Errorf("%s as %s: %d, %s%s", query, format, code, stdout, stderr)
			}
		}
	}
	const values = `SELECT 'a	b' || char(27) AS "text", NULL AS void, 2.5 AS n, labels AS "a,b" FROM namespaces WHERE name = 'default'`
	if _, stdout, stderr := sql(values); !strings.Contains(stdout, "TEXT   VOID     N     A,B\na b    <none>   2.5   {") {
		t.Errorf("a table: %q%s", stdout, stderr)
	}
	_, stdout, stderr := sql("-o", "csv", values)
	if lines, err := csv.NewReader(strings.NewReader(stdout)).ReadAll(); err != nil || len(lines) != 2 || lines[1][3] != `{"kubernetes.io/metadata.name":"default"}` || lines[1][1] != "" {
		t.Errorf("csv: %q, %v, %s", lines, err, stderr)
	}
	var rows []map[string]any
	if _, stdout, stderr = sql("-o", "json", values); json.Unmarshal([]byte(stdout), &rows) != nil || len(rows) != 1 || rows[0]["void"] != nil || rows[0]["n"] != 2.5 ||
		rows[0]["a,b"].(map[string]any)["kubernetes.io/metadata.name"] != "default" {
		t.Errorf("json: %q%s", stdout, stderr)
	}
	for format, want := range map[string]string{"table": "A          B           C\nInfinity   -Infinity   <none>\n", "csv": "a,b,c\nInfinity,-Infinity,\n",
		"json": `[` + "\n" + `{"a":"Infinity","b":"-Infinity","c":null}` + "\n]\n"} {
		if code, stdout, stderr := sql("-o", format, "SELECT 1e999 AS a, -1e999 AS b, 1e999 - 1e999 AS c"); code != 0 || stdout != want {
			t.Errorf("what is infinite, as %s: %d, %q%s", format, code, stdout, stderr)
		}
	}
	if _, stdout, _ = sql("-o", "json", "SELECT * FROM pods WHERE false"); stdout != "[]\n" {
		t.Errorf("no rows: %q", stdout)
	}
	if code, stdout, stderr := sql("-o", "csv", "--max-rows", "1", "SELECT name FROM pods ORDER BY name"); code != 0 || stdout != "name\np1\n" || !strings.Contains(stderr, "--max-rows") {
		t.Errorf("too many rows: %d, %q%s", code, stdout, stderr)
	}
	if code, _, stderr := sql("--timeout", "50ms", "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r WHERE n < 0"); code != exitFailure || !strings.Contains(stderr, "--timeout") {
		t.Errorf("a query without an end: %d, %s", code, stderr)
	}
	if code, _, stderr := sql("DELETE FROM pods"); code != exitFailure || !strings.Contains(stderr, "nothing can be changed") {
		t.Errorf("a deletion: %d, %s", code, stderr)
	}
	if code, _, stderr := sql("SELECT * FROM deployments"); code != exitFailure || !strings.Contains(stderr, "--views") {
		t.Errorf("no such view: %d, %s", code, stderr)
	}
	if code, _, stderr := sql(`SELECT "names" FROM pods`); code != exitFailure || !strings.Contains(stderr, "no such column") {
		t.Errorf("no such column: %d, %s", code, stderr)
	}
	if _, stdout, _ := sql("--views"); !strings.Contains(stdout, "\ncertificates.cert-manager.io\n") || !strings.Contains(stdout, "pods\n") ||
		!slices.IsSorted(strings.Fields(stdout)) {
		t.Errorf("views: %s", stdout)
	}
	if _, stdout, stderr := sql("--views", "-o", "csv"); !strings.HasPrefix(stdout, "view\nall_changes\n") {
		t.Errorf("views as CSV: %s%s", stdout, stderr)
	}
	if _, stdout, stderr := sql("--views", "-o", "json", "pods"); !strings.HasPrefix(stdout, "[\n{\"column\":\"namespace\"},\n") {
		t.Errorf("columns as JSON: %s%s", stdout, stderr)
	}
	if _, stdout, stderr := sql("--views", "pods"); !strings.HasPrefix(stdout, "namespace\nname\ncreated\nage\nready\nprinted_status\nrestarts\nip\nnode\n") {
		t.Errorf("columns: %s%s", stdout, stderr)
	}
	for _, wrong := range [][]string{{}, {"SELECT 1", "SELECT 2"}, {"--max-rows", "0", "SELECT 1"}, {"--timeout", "0s", "SELECT 1"}, {"-o", "yaml", "SELECT 1"}} {
		if code, _, _ := sql(wrong...); code != exitUsage {
			t.Errorf("%q ends with %d", wrong, code)
		}
	}
}

// Encrypted objects are decrypted with the keys; without keys only their names can be read.
func TestSQLOfEncrypted(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	encrypt(t, file, "configmaps", secretbox("a"))
	p := start(t, "--data-dir", dir, "--encryption-provider-config", file)
	send(t, p.client(t), "POST", "/api/v1/namespaces/default/configmaps", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"},"data":{"k":"v"}}`)
	const query = "SELECT name, data FROM configmaps WHERE name = 'c'"
	if out := runs(t, "sql", "--data-dir", dir, "-o", "csv", "--encryption-provider-config", file, query); out != "name,data\nc,1\n" {
		t.Errorf("with the keys: %q", out)
	}
	if out := runs(t, "sql", "--data-dir", dir, "-o", "csv", query); out != "name,data\nc,\n" {
		t.Errorf("without: %q", out)
	}
	p.end()
}

// A reader that stalls, as a pager does, does not prevent truncation of the write-ahead log for longer than --timeout.
func TestSQLReaderStandsStill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rowlock.db")
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: "sqlite://" + file, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	reader, writer := io.Pipe()
	var errs strings.Builder
	ended := make(chan int, 1)
	go func() {
		code := run(t.Context(), []string{"sql", "--datastore", "sqlite://" + file, "--timeout", "20s", "--max-rows", "1000000000", "-o", "csv",
			"WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n, hex(zeroblob(1000)) AS z FROM r"}, writer, &errs)
		writer.Close()
		ended <- code
	}()
	if _, err := reader.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	untilNative(t, storePlace{dir: filepath.Dir(file)}, "PRAGMA wal_checkpoint(TRUNCATE)", func(rows [][]string, err error) bool {
		return err == nil && rows[0][0] == "0" // not busy
	})
	if n, err := io.Copy(io.Discard, reader); err != nil || n < 1<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if code := <-ended; code != exitFailure || !strings.Contains(errs.String(), "--timeout") {
		t.Errorf("it ends with %d: %s", code, errs.String())
	}
}

// A table is written in parts, so that the buffered part is bounded.
func TestTableInParts(t *testing.T) {
	var out strings.Builder
	rows := newRowWriter("table", &out)
	long := strings.Repeat("x", cellMost)
	for i := 0; out.Len() == 0; i++ {
		if err := rows.row([]any{long, long}); err != nil || i > tableBytes/cellMost {
			t.Fatalf("after %d rows nothing is written, %v", i, err)
		}
	}
	if long := shownCell(strings.Repeat("ä", 1000)); long != strings.Repeat("ä", cellMost-1)+"…" {
		t.Errorf("%q", long)
	}
}
