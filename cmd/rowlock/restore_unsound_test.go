package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A restore of a backup warns of objects that were damaged in the store.
func TestRestoreWarnsOfDamage(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	p := start(t, "--data-dir", dir)
	client := p.client(t)
	for _, name := range []string{"a", "b"} {
		send(t, client, "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"`+name+`"},"data":{"v":"1"}}`)
	}
	p.end()
	runs(t, "token", "create", "--user", "jane", "--data-dir", dir)
	runs(t, "backup", file, "--data-dir", dir)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// change changes the data of some rows.
	var columns []string
	change := func(is func(resource, name string) bool, to func(string) string) func([]any) []any {
		return func(row []any) []any {
			at := func(name string) *any { return &row[slices.Index(columns, name)] }
			if is((*at("resource")).(string), (*at("name")).(string)) {
				*at("data") = to((*at("data")).(string))
			}
			return row
		}
	}
	ofMaps := func(resource, name string) bool { return resource == "configmaps" && (name == "a" || name == "b") }
	for name, damage := range map[string]struct {
		row  func([]any) []any
		says string
	}{
		"none":             {func(row []any) []any { return row }, ""},
		"not JSON":         {change(ofMaps, func(s string) string { return s[:9] }), "Warning: 2 objects are damaged in the backup, as in the store that it was made of: configmaps/default/a: is not JSON. 'rowlock verify' lists"},
		"another revision": {change(ofMaps, func(s string) string { return strings.Replace(s, `"resourceVersion":"`, `"resourceVersion":"9`, 1) }), ": configmaps/default/a: has revision "},
		"encrypted":        {change(ofMaps, func(string) string { return "k8s:enc:secretbox:v1:k:AAAA" }), ": configmaps/default/a: what is encrypted in the database is too short to be an object"},
		"the server's own": {change(func(resource, _ string) bool { return resource == "tokens.rowlock.internal" },
			func(s string) string { return strings.Replace(s, `"user":"jane"`, `"user":""`, 1) }), ": is of no use to a server: does not say whose token"},
	} {
		t.Run(name, func(t *testing.T) {
			damaged := filepath.Join(t.TempDir(), "damaged")
			if err := os.WriteFile(damaged, rewritten(t, data, func(c []string) []string { columns = c; return c }, damage.row), 0o600); err != nil {
				t.Fatal(err)
			}
			code, _, stderr := command(t, "restore", damaged, "--data-dir", filepath.Join(t.TempDir(), "restored"))
			if code != 0 || !strings.Contains(stderr, damage.says) || (damage.says == "") != (stderr == "") {
				t.Errorf("exit code %d, it says %q, want %q", code, stderr, damage.says)
			}
		})
	}
}
